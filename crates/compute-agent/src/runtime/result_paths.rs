//! The directories that a task's result paths need before it runs.

use std::collections::BTreeSet;

use api_types::protocol::Work;

/// The directories that the task's result paths need.
///
/// A path whose last component contains a dot counts as a file: it needs its parent.
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
