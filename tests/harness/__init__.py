"""What tests are made with, from the inside out.

`loops` runs a coroutine as a test. `simulations` is a world of the core alone, `stores` one whose facts are kept,
`engines` a driver between fakes, `emulators` the whole application in process or behind a socket, with receivers
of what it delivers, and `processes` the program as a user starts it. `snapshots` and `streams` use those, and
`installation`, `certificates` and `once` make what lies around them.
"""
