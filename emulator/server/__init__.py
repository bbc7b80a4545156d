"""The process around the application: settings, listening, certificates, logs.

It may import api and what lies below it.
"""
