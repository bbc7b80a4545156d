"""The workflow API, one file a resource; it may import api's shared parts, the messaging call, and all below."""
