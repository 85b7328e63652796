//! The client against a peer with scripted responses, over a real socket.

mod events;
mod peer;
mod responses;
mod streams;
mod tls;
