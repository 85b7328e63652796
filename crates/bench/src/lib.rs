//! Every figure of `docs/performance.md`, measured on one machine in one run.
//!
//! Absolute figures depend on the machine. Therefore most figures are ratios to a floor (the same
//! work without the service) or to a peer, measured in the same run; the absolute figures are given
//! as context.
//!
//! The daemons are the programs next to this one: separate processes, durable storage, no
//! failpoints.

mod bare;
mod containers;
mod curves;
mod explained;
mod fleet;
mod floor;
mod idle;
mod lifecycles;
mod load;
mod logs;
mod measure;
mod names;
mod printing;
mod process;
mod protection;
mod queued;
mod report;
mod scale;
mod seed;
mod shared;
mod stored;
mod submissions;
mod turns;
mod wasm;

use std::future::Future;
use std::pin::Pin;

pub use bare::Bare;
pub use floor::serve as serve_floor;
pub use measure::{Measure, Target};
pub use report::{Report, markdown};
pub use scale::{FULL, QUICK, Scale};

type Measuring<'a> = Pin<Box<dyn Future<Output = anyhow::Result<Vec<Measure>>> + 'a>>;

/// Measures all groups, or those whose name contains `only`, and passes each result to `report`.
/// A group that fails is reported with the reason; the others continue.
pub async fn run(scale: Scale, only: &str, mut report: impl FnMut(&str)) -> Vec<Measure> {
    let groups: Vec<(&str, Measuring<'_>)> = vec![
        ("turns", Box::pin(turns::measure(scale))),
        ("submissions", Box::pin(submissions::measure(scale))),
        ("names", Box::pin(names::measure(scale))),
        ("protection", Box::pin(protection::measure(scale))),
        ("lives", Box::pin(lifecycles::measure(scale))),
        ("wasm", Box::pin(wasm::measure(scale))),
        ("containers", Box::pin(containers::measure(scale))),
        ("printing", Box::pin(printing::measure(scale))),
        ("replacement", Box::pin(containers::replacement())),
        ("rest", Box::pin(idle::measure(scale))),
        ("curves", Box::pin(async { curves::measure() })),
        ("fleet", Box::pin(fleet::measure(scale))),
        ("explained", Box::pin(explained::measure(scale))),
        ("logs", Box::pin(logs::measure(scale))),
        ("queued", Box::pin(queued::measure(scale))),
        ("stored", Box::pin(stored::measure(scale))),
        ("shared store", Box::pin(shared::commits::measure(scale))),
        ("shared service", Box::pin(shared::service::measure(scale))),
        ("shared reads", Box::pin(shared::reads::measure(scale))),
        ("shared follower", Box::pin(shared::follower::measure(scale))),
        ("shared takeovers", Box::pin(shared::takeovers::measure(scale))),
    ];
    let mut measures = Vec::new();
    for (name, group) in groups.into_iter().filter(|(name, _)| name.contains(only)) {
        let begin = std::time::Instant::now();
        match group.await {
            Ok(found) => {
                for measure in &found {
                    report(&measure.to_string());
                }
                measures.extend(found);
            }
            Err(error) => report(&format!("cannot measure {name}: {error:#}")),
        }
        report(&format!("{name} took {:.1} s", begin.elapsed().as_secs_f64()));
    }
    measures
}
