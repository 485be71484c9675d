//! Connections and servers that go away around the commit.
