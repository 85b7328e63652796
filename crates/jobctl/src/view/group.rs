//! Concurrency groups for people.

use api_types::group::{Group, GroupJob};

use crate::output::{Cell, Fields, Layout, Listed, Out, age_of_text, local_text};

impl Listed for Group {
    const NOUN: &'static str = "groups";

    fn columns(_: &Layout) -> Vec<&'static str> {
        vec!["NAMESPACE", "NAME", "LIMIT", "RUNNING", "WAITING", "AGE", "CHANGED"]
    }

    fn cells(&self, layout: &Layout) -> Vec<Cell> {
        vec![
            Cell::plain(&self.namespace),
            Cell::plain(&self.name),
            Cell::plain(limit(self)),
            Cell::plain(self.running.to_string()),
            Cell::plain(waiting(self)),
            Cell::age(age_of_text(layout.now, &self.create_time)),
            Cell::age(age_of_text(layout.now, &self.modify_time)),
        ]
    }

    fn name(&self) -> String {
        format!("{}/{}", self.namespace, self.name)
    }
}

/// A group with its jobs.
pub(crate) fn group_text(group: &Group, out: Out) -> String {
    let mut fields = Fields::default();
    fields.add("Name", &group.name).add("Namespace", &group.namespace);
    fields.add("Limit", limit(group)).add("Running", group.running.to_string());
    fields.add_some("Held by", jobs(&group.holders, group.holding));
    fields.add("Waiting jobs", waiting(group));
    fields.add_some("Next", jobs(&group.waiters, group.waiting));
    fields.add("Created", local_text(&group.create_time));
    fields.add("Changed", local_text(&group.modify_time));
    fields.render(out.colours())
}

fn limit(group: &Group) -> String {
    if group.limit == 0 { "0 (paused)".to_owned() } else { group.limit.to_string() }
}

fn waiting(group: &Group) -> String {
    format!("{}{}", group.waiting, if group.waiting_is_more { "+" } else { "" })
}

/// The jobs by name, one per line, and how many are left out.
fn jobs(listed: &[GroupJob], all: u32) -> String {
    let line = |job: &GroupJob| match job.executions {
        0 => format!("{} ({})", job.name, job.job_id.short()),
        1 => format!("{} ({}), 1 execution", job.name, job.job_id.short()),
        many => format!("{} ({}), {many} executions", job.name, job.job_id.short()),
    };
    let mut lines: Vec<_> = listed.iter().map(line).collect();
    let rest = (all as usize).saturating_sub(listed.len());
    if rest > 0 && !listed.is_empty() {
        lines.push(format!("and {rest} more"));
    }
    lines.join("\n")
}
