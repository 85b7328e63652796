//! What one input costs the engine, and how that grows with the nodes.

use divan::{Bencher, black_box};
use testbed::bench::Bare;

const NODES: [u32; 3] = [10, 1_000, 10_000];

fn main() {
    divan::main();
}

/// A submission that no node has room for: an entry of the queue.
#[divan::bench(args = NODES)]
fn submit(bencher: Bencher<'_, '_>, nodes: u32) {
    measured(bencher, nodes, Bare::waiting, |bare, job| {
        black_box(bare.submit(job));
    });
}

/// A submission that is placed at once.
#[divan::bench(args = NODES)]
fn place(bencher: Bencher<'_, '_>, nodes: u32) {
    measured(bencher, nodes, Bare::placeable, |bare, job| {
        black_box(bare.submit(job));
    });
}

/// A node's acceptance of what it was offered.
#[divan::bench(args = NODES)]
fn report(bencher: Bencher<'_, '_>, nodes: u32) {
    measured(bencher, nodes, Bare::acceptance, Bare::report);
}

/// Times what is done with each input, not its making; both on one engine.
fn measured<I>(
    bencher: Bencher<'_, '_>,
    nodes: u32,
    make: impl Fn(&mut Bare) -> I,
    done: impl Fn(&mut Bare, I),
) {
    let bare = std::cell::RefCell::new(Bare::new(nodes));
    // The first input builds the pool of nodes, once.
    let first = make(&mut bare.borrow_mut());
    done(&mut bare.borrow_mut(), first);
    bencher
        .with_inputs(|| make(&mut bare.borrow_mut()))
        .bench_local_values(|input| done(&mut bare.borrow_mut(), input));
}
