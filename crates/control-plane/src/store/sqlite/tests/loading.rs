//! Memory use of a start.

use scheduler::change::Changes;
use scheduler::text::Text;

use super::{Backend, directory};
use crate::store::contract::{Put, Random, Sample, load};

#[test]
fn jobs_with_the_same_message_share_it() {
    let mut random = Random(150);
    let mut changes = Changes::default();
    for message in ["no room", "other", "no room"] {
        let mut sample = Sample::job(&mut random);
        sample.row.message = message.into();
        sample.add_to(&mut changes);
    }
    let directory = directory();
    let (mut store, _) = directory.open();
    store.put(1, &changes, &[]).unwrap();
    let (jobs, _) = load(store.as_mut());
    let mut kept: Vec<*const u8> = jobs
        .iter()
        .map(|job| match &job.row.message {
            Text::Made(text) => text.as_ptr(),
            Text::Constant(text) => panic!("'{text}' was read as a constant"),
        })
        .collect();
    assert_eq!(kept.len(), 3);
    kept.sort_unstable();
    kept.dedup();
    assert_eq!(kept.len(), 2);
}
