//! The agent against a small orchestrator over real sockets, and against real docker.

/// The OpenAPI operations that the tests of a module cover: the operation, the test's name, the
/// test. `openapi::every_operation_has_a_test_that_uses_it` runs each and checks which paths it
/// requested.
type Coverage = &'static [(&'static str, &'static str, fn())];

/// `"operationId" => name_of_a_test;`, once per module.
macro_rules! covers {
    ($($operation:literal => $test:ident;)+) => {
        pub(crate) const COVERS: crate::Coverage = &[$(($operation, stringify!($test), $test)),+];
    };
}
pub(crate) use covers;

mod capabilities;
mod clocks;
mod collecting;
mod containers;
mod contract;
mod daemon;
mod engines;
mod failing;
mod faults;
mod gpus;
mod hostile;
mod http;
mod image;
mod interrupted;
mod joining;
mod metrics;
mod networks;
mod node;
mod noop;
mod openapi;
mod orchestrator;
mod output;
mod private_images;
mod probes;
mod programs;
mod publishing;
mod pulling;
mod realms;
mod refusals;
mod registry;
mod reserve;
mod restarting;
mod runners;
mod running;
mod sandboxes;
mod sessions;
mod stopping;
mod usage;
mod wasm;
