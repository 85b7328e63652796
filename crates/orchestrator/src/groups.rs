//! Concurrency groups that a submitted job names.

use api_types::error::FieldError;
use api_types::job::{JobSpec, OnConflict};
use control_plane::groups::{self, StoredGroup};

use crate::records::Published;

/// What keeps the job from its groups; the scheduler checks the same when it takes the job.
pub(crate) fn check(records: &Published, spec: &JobSpec) -> Vec<FieldError> {
    let refused = |(index, name): (usize, &String)| {
        let path = format!("ConcurrencyGroups[{index}]");
        let Some(record) = records.get(&groups::key(&spec.namespace, name)) else {
            let reason = format!(
                "concurrency group '{name}' does not exist in namespace '{0}'; an owner creates it \
                 with `jobctl group put {0}/{name} --limit N`",
                spec.namespace
            );
            return Some(FieldError { path, reason });
        };
        let limit = StoredGroup::from_record(&record).limit;
        let is_shared = spec.on_conflict == OnConflict::Replace && limit != 1;
        let reason =
            || format!("Replace needs a group with Limit 1, and '{name}' has Limit {limit}");
        is_shared.then(|| FieldError { path: "OnConflict".to_owned(), reason: reason() })
    };
    spec.concurrency_groups.iter().enumerate().filter_map(refused).collect()
}
