//! Examples of concurrency groups.

use api_types::group::{DescribeGroup, Group, GroupJob, ListGroups, PutGroup};

use super::records::{JOB, MOMENT};

fn group() -> Group {
    Group {
        name: "db".to_owned(),
        namespace: "default".to_owned(),
        limit: 5,
        running: 5,
        holding: 1,
        waiting: 1,
        waiting_is_more: false,
        holders: Vec::new(),
        waiters: Vec::new(),
        create_time: MOMENT.rfc3339(),
        modify_time: MOMENT.rfc3339(),
    }
}

pub(in crate::http) fn list_groups() -> ListGroups {
    ListGroups { groups: vec![group()] }
}

pub(in crate::http) fn describe_group() -> DescribeGroup {
    let job = |name: &str, executions| GroupJob { job_id: JOB, name: name.to_owned(), executions };
    let (holders, waiters) = (vec![job("import", 5)], vec![job("report", 0)]);
    DescribeGroup { group: Group { holders, waiters, ..group() } }
}

pub(in crate::http) fn deleted_group() -> DescribeGroup {
    DescribeGroup { group: Group { running: 0, holding: 0, waiting: 0, ..group() } }
}

pub(in crate::http) fn put_group() -> PutGroup {
    PutGroup { limit: Some(5) }
}
