"""What tests are made with: event loops, worlds at every depth, servers, receivers, processes."""
