//! Cost of one input to the scheduler, by number of nodes.

use bench::Bare;
use divan::{Bencher, black_box};

const NODES: [u32; 3] = [10, 1_000, 10_000];

fn main() {
    divan::main();
}

/// A submission that no node has capacity for: it is queued.
#[divan::bench(args = NODES)]
fn submit(bencher: Bencher<'_, '_>, nodes: u32) {
    measured(bencher, nodes, Bare::waiting, |bare, job| {
        black_box(bare.submit(job));
    });
}

/// A submission that is placed immediately.
#[divan::bench(args = NODES)]
fn place(bencher: Bencher<'_, '_>, nodes: u32) {
    measured(bencher, nodes, Bare::placeable, |bare, job| {
        black_box(bare.submit(job));
    });
}

/// A node's acceptance of an offer.
#[divan::bench(args = NODES)]
fn report(bencher: Bencher<'_, '_>, nodes: u32) {
    measured(bencher, nodes, Bare::acceptance, Bare::report);
}

/// Measures the handling of each input without its creation, on one scheduler.
fn measured<I>(
    bencher: Bencher<'_, '_>,
    nodes: u32,
    make: impl Fn(&mut Bare) -> I,
    handle: impl Fn(&mut Bare, I),
) {
    let bare = std::cell::RefCell::new(Bare::new(nodes));
    // The first input builds the pool of nodes.
    let first = make(&mut bare.borrow_mut());
    handle(&mut bare.borrow_mut(), first);
    bencher
        .with_inputs(|| make(&mut bare.borrow_mut()))
        .bench_local_values(|input| handle(&mut bare.borrow_mut(), input));
}
