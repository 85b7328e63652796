//! The edge under pressure: behaviour that is visible only inside the process.

mod openapi;
mod pressure;
mod service;
mod waiting;
