"""The small languages that requests are written in, cron and retry-delay expressions among them.

It imports only records and errors of core.
"""
