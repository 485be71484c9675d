//! What oncekey's tests need: a counting upstream, a TCP fault proxy, process control.
