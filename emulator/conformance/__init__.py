"""Whether a receiver of deliveries is right: a battery of requests, and a report of what they showed.

It may import delivery, wire and core: it needs no world, and sends what a delivery of one would be.
"""
