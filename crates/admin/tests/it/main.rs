//! The admin listener as its users meet it: requests in, answers out, on the memory store.

mod access;
mod changes;
mod health;
mod listener;
mod listings;
mod shapes;
mod stuck;
mod world;
