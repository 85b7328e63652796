//! The stored form of a plan: what it leaves out, reads back, and does not misread.

use alloc::vec;

use super::*;

fn plan() -> JobPlan {
    let requirement = |key: &str, test| Requirement { key: key.into(), test };
    let constraints = vec![
        requirement("a, b", Test::Exists),
        requirement("a", Test::Absent),
        requirement("zone", Test::In(vec!["x=1, \"y\"".into(), String::new()])),
        requirement("zone", Test::NotIn(vec![])),
        requirement("n", Test::Greater(i64::MIN)),
        requirement("n", Test::Less(9)),
    ];
    JobPlan {
        job_type: JobType::Service,
        priority: 70,
        namespace: "team".into(),
        retry: RetryPolicy { attempts: 0, delay: 1, max_delay: u32::MAX },
        timeouts: Timeouts {
            execution_timeout: 1,
            queue_timeout: 2,
            total_timeout: 3,
            lost_after: u64::MAX,
        },
        names_secrets: true,
        max_running: 4,
        max_failed: 0,
        groups: Vec::new(),
        replaces: false,
        depends_on: vec![Dependency {
            job_id: JobId::from_uuid(uuid::Uuid::from_u128(7)),
            job: "build, \"x\"".into(),
            condition: Condition::Ended,
            indexes: Indexes::All,
        }],
        told_count: 20,
        demand: Demand {
            fit: Fit {
                engine: EngineType::Docker,
                publisher: PublisherType::S3,
                sources: vec![SourceType::Inline, SourceType::S3],
                constraints,
            },
            need: Need { cpu_millis: Some(u64::MAX), memory_bytes: None, disk_bytes: 5, gpus: 1 },
        },
    }
}

#[test]
fn a_plan_reads_back() {
    let every_field = plan();
    let mut few = plan();
    few.timeouts = Timeouts::default();
    few.names_secrets = false;
    few.max_running = 0;
    few.depends_on.clear();
    few.told_count = 0;
    few.demand.fit.sources.clear();
    few.demand.fit.constraints.clear();
    few.demand.need = Need { cpu_millis: None, memory_bytes: Some(0), disk_bytes: 0, gpus: 0 };
    let mut usual = few.clone();
    usual.job_type = JobType::Batch;
    usual.priority = 50;
    usual.namespace = "default".into();
    usual.retry = RetryPolicy::default_for(JobType::Batch);
    usual.demand.fit.publisher = PublisherType::None;
    usual.demand.need.memory_bytes = None;
    assert_eq!(usual.to_text(), r#"{"V":2,"E":"docker"}"#);
    // An older release would fail the job with its first slot.
    let mut tolerant = usual.clone();
    tolerant.max_failed = -1;
    assert_eq!(tolerant.to_text(), r#"{"V":3,"F":-1,"E":"docker"}"#);
    // It would let all slots start together, or wait for all.
    let mut matched = every_field.clone();
    matched.depends_on[0].indexes = Indexes::Same;
    assert!(matched.to_text().starts_with(r#"{"V":4,"#), "{}", matched.to_text());
    for plan in [every_field, few, usual, tolerant, matched] {
        let text = plan.to_text();
        assert_eq!(JobPlan::from_text(&text).expect("it was just written"), plan, "{text}");
    }
}

#[test]
fn a_plan_of_the_first_format_reads_as_it_was_meant() {
    let text = r#"{"V":1,"T":"batch","P":50,"N":"default","R":[1,1,60],"E":"docker","U":""}"#;
    let plan = JobPlan::from_text(text).expect("a former release wrote it");
    assert_eq!(plan.to_text(), r#"{"V":2,"E":"docker"}"#);
}

#[test]
fn a_plan_that_is_damaged_or_of_a_later_release_is_not_misread() {
    let text = plan().to_text();
    let later = text.replacen("\"V\":3", "\"V\":5", 1);
    assert!(matches!(JobPlan::from_text(&later), Err(UnreadablePlan::Format(5))));
    let unknown = text.replacen("\"notin\"", "\"like\"", 1);
    assert!(matches!(JobPlan::from_text(&unknown), Err(UnreadablePlan::Test(_))));
    for end in 0..text.len() {
        let cut = text.get(..end).unwrap_or_default();
        assert!(JobPlan::from_text(cut).is_err(), "{cut}");
    }
}

#[test]
fn only_a_plan_with_a_gate_is_unreadable_to_older_releases() {
    let mut plan = plan();
    assert!(plan.to_text().starts_with(r#"{"V":3,"#), "{}", plan.to_text());
    plan.max_running = 0;
    assert!(plan.to_text().starts_with(r#"{"V":3,"#), "{}", plan.to_text());
    plan.depends_on.clear();
    plan.told_count = 0;
    assert!(plan.to_text().starts_with(r#"{"V":2,"#), "{}", plan.to_text());
}
