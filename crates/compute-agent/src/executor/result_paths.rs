//! Which directories a task's result paths need, so that it can write to them at once.

use std::collections::BTreeSet;

use api_types::protocol::Work;

/// The directories that the task's result paths need.
///
/// A path whose last component has a dot in it is taken for a file: its parent is needed.
pub(super) fn directories(work: &Work) -> BTreeSet<String> {
    work.task
        .result_paths
        .iter()
        .filter_map(|result| {
            let path = result.path.trim_end_matches('/');
            let (parent, last) = path.rsplit_once('/')?;
            Some(if last.contains('.') { parent } else { path })
        })
        .filter(|directory| !directory.is_empty())
        .map(str::to_owned)
        .collect()
}
