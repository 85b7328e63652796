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

/// The end of an execution, where no work waits for its room.
#[divan::bench(args = NODES)]
fn end(bencher: Bencher<'_, '_>, nodes: u32) {
    measured(bencher, nodes, Bare::completion, Bare::report);
}

/// The end of an execution, whose room the first of a thousand waiting jobs gets. A sample starts
/// no more executions than the smallest cluster has.
#[divan::bench(args = NODES, sample_size = 5, sample_count = 200)]
fn end_before_waiting_work(bencher: Bencher<'_, '_>, nodes: u32) {
    measured_on(Bare::full(nodes), bencher, Bare::freeing, Bare::report);
}

/// A node that is known joins again.
#[divan::bench(args = NODES)]
fn join(bencher: Bencher<'_, '_>, nodes: u32) {
    measured(bencher, nodes, Bare::joining, Bare::take);
}

/// A heartbeat that renews a lease and changes nothing else.
#[divan::bench(args = NODES)]
fn heartbeat(bencher: Bencher<'_, '_>, nodes: u32) {
    measured(bencher, nodes, Bare::beating, Bare::take);
}

/// A submission that is queued, while all nodes are in the backlog of a restart.
#[divan::bench(args = NODES)]
fn submit_before_a_backlog(bencher: Bencher<'_, '_>, nodes: u32) {
    measured_on(Bare::with_backlog(nodes), bencher, Bare::waiting, |bare, job| {
        black_box(bare.submit(job));
    });
}

/// A submission that is placed immediately, while all nodes are in the backlog of a restart.
#[divan::bench(args = NODES)]
fn place_before_a_backlog(bencher: Bencher<'_, '_>, nodes: u32) {
    measured_on(Bare::with_backlog(nodes), bencher, Bare::placeable, |bare, job| {
        black_box(bare.submit(job));
    });
}

fn measured<I>(
    bencher: Bencher<'_, '_>,
    nodes: u32,
    make: impl Fn(&mut Bare) -> I,
    handle: impl Fn(&mut Bare, I),
) {
    measured_on(Bare::new(nodes), bencher, make, handle);
}

/// Measures the handling of each input without its creation, on one scheduler.
fn measured_on<I>(
    bare: Bare,
    bencher: Bencher<'_, '_>,
    make: impl Fn(&mut Bare) -> I,
    handle: impl Fn(&mut Bare, I),
) {
    let bare = std::cell::RefCell::new(bare);
    // The first input builds the pool of nodes.
    let first = make(&mut bare.borrow_mut());
    handle(&mut bare.borrow_mut(), first);
    bencher
        .with_inputs(|| make(&mut bare.borrow_mut()))
        .bench_local_values(|input| handle(&mut bare.borrow_mut(), input));
}
