//! Groups with their amounts, and the titles that they make.

use super::*;

fn group(reason: Reason, nodes: u64) -> ReasonGroup {
    ReasonGroup { reason: reason.as_str().to_owned(), nodes, ..ReasonGroup::default() }
}

fn short(reason: Reason, [asked, largest, free]: [Amount; 3]) -> ReasonGroup {
    let (asked, largest, free) = (Some(asked), Some(largest), Some(free));
    ReasonGroup { asked, largest, free, ..group(reason, 3) }
}

fn constraint(wanted: Option<&str>, found: &[&str]) -> ReasonGroup {
    ReasonGroup {
        key: Some("region".to_owned()),
        wanted: wanted.map(str::to_owned),
        found: found.iter().map(|&value| value.to_owned()).collect(),
        ..group(Reason::Constraint, 2)
    }
}

const SMALL: [Amount; 3] = [Amount::Cores(64.0), Amount::Cores(8.0), Amount::Cores(7.5)];
const BUSY: [Amount; 3] =
    [Amount::Whole(16_000_000_000), Amount::Whole(32_000_000_000), Amount::Whole(1_000_000_000)];

#[test]
fn each_reason_is_a_sentence() {
    let sentences: Vec<_> = Reason::ALL
        .iter()
        .flat_map(|&reason| match reason {
            Reason::Constraint => vec![
                constraint(Some("region in (eu, us)"), &[]),
                constraint(Some("region=eu"), &["ap", "us"]),
                constraint(None, &["ap"]),
                ReasonGroup { nodes: 1, ..constraint(None, &[]) },
            ],
            Reason::Cpu => vec![short(reason, SMALL)],
            Reason::Memory => vec![short(reason, BUSY)],
            Reason::Disk => vec![ReasonGroup { nodes: 1, ..short(reason, BUSY) }],
            Reason::Gpu => {
                vec![short(reason, [Amount::Whole(1), Amount::Whole(2), Amount::Whole(0)])]
            }
            Reason::Engine | Reason::Publisher | Reason::Source => {
                vec![ReasonGroup { key: Some("wasm".to_owned()), ..group(reason, 1) }]
            }
            _ => vec![group(reason, 1), group(reason, 2)],
        })
        .map(|group| group.sentence())
        .collect();
    let expected = [
        "2 nodes do not match region in (eu, us): no node has the label region",
        "2 nodes do not match region=eu: their region is ap, us",
        "2 nodes do not match a constraint on the label region: their region is ap",
        "1 node does not match a constraint on the label region: it has no label region",
        "3 nodes have too little: 64 cores are asked for, the largest has 8",
        "3 nodes have too little: 16 GB of memory is asked for, at most 1 GB is free",
        "1 node has too little: 16 GB of disk is asked for, 1 GB is free",
        "3 nodes have too little: 1 GPU is asked for, at most 0 are free",
        "1 node has no wasm engine",
        "1 node has no wasm publisher",
        "1 node has no wasm input source",
        "1 node is disconnected",
        "2 nodes are disconnected",
        "1 node is not approved",
        "2 nodes are not approved",
        "1 node is cordoned",
        "2 nodes are cordoned",
        "1 node is draining",
        "2 nodes are draining",
        "1 node is backing off after failures",
        "2 nodes are backing off after failures",
        "1 node has room, but the job's executions failed there and stay away",
        "2 nodes have room, but the job's executions failed there and stay away",
        "1 node is reserved for work that has waited for longer",
        "2 nodes are reserved for work that has waited for longer",
        "1 node has room, but others come first",
        "2 nodes have room, but others come first",
        "no node has joined",
        "no node has joined",
    ];
    assert_eq!(sentences, expected);
}

#[test]
fn a_title_names_room_only_where_room_is_missing() {
    let title = |groups: &[ReasonGroup], ahead| super::title(groups, ahead, false);
    let constrained = constraint(Some("region in (eu-west-1, eu-central-1)"), &[]);
    assert_eq!(
        title(std::slice::from_ref(&constrained), 0),
        "No node matches: needs region in (eu-west-1, eu-central-1); no node has the label region"
    );
    assert_eq!(title(&[short(Reason::Cpu, SMALL)], 0), "Asks 64 cores; the largest node has 8");
    let busy = short(Reason::Memory, BUSY);
    assert_eq!(title(&[constrained.clone(), busy], 3), "Waits for room: 3 jobs ahead");
    assert_eq!(title(&[group(Reason::NoNode, 0)], 0), "No node has joined");
    assert_eq!(
        title(&[constrained, group(Reason::Cordoned, 1)], 0),
        "No node takes it: 2 nodes do not match region in (eu-west-1, eu-central-1): no node \
         has the label region; 1 node is cordoned"
    );
}

#[test]
fn a_code_of_a_later_release_is_read() {
    let read: ReasonGroup = serde_json::from_str(
        r#"{"Reason":"Budget","Nodes":2,"NodeIDs":[],"Message":"too dear","Asked":1.5,"New":1}"#,
    )
    .unwrap();
    assert_eq!((read.code(), read.asked), (None, Some(Amount::Cores(1.5))));
    assert_eq!(title(&[read], 0, false), "No node takes it: too dear");
}
