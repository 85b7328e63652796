//! The edge under pressure: what is seen only from inside of the process.

mod openapi;
mod pressure;
mod service;
mod waiting;
