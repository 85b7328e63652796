//! The client against a peer that answers exactly what a test wants, over a real socket.

mod answers;
mod events;
mod peer;
mod streams;
