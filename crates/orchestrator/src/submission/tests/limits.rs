//! How many executions of a job may be live, and how many may fail.

use serde_json::{Value, json};

use super::{accept_job, job, problems};

#[test]
fn only_jobs_that_end_limit_their_live_executions() {
    let with = |job_type: &str, most: Value| job(json!({ "Type": job_type, "MaxRunning": most }));
    for job_type in ["batch", "ops"] {
        assert_eq!(accept_job(&with(job_type, json!(5))).spec.max_running, 5);
    }
    for job_type in ["service", "daemon"] {
        assert_eq!(accept_job(&with(job_type, json!(0))).spec.max_running, 0);
        let why = format!(
            "MaxRunning: is only allowed for batch and ops jobs: all executions of a {job_type} job \
             run at the same time"
        );
        assert_eq!(problems(&with(job_type, json!(1))), [why]);
    }
    for most in [-1, 1_000_001] {
        let why = format!("MaxRunning: must be between 0 (no limit) and 1000000, got {most}");
        assert_eq!(problems(&with("batch", json!(most))), [why]);
    }
}

#[test]
fn only_jobs_that_end_allow_failures() {
    for (fields, most) in [
        (json!({ "MaxFailed": -1 }), -1),
        (json!({ "Type": "ops", "MaxFailed": 1_000_000 }), 1_000_000),
        (json!({ "Type": "daemon", "MaxFailed": 0 }), 0),
    ] {
        assert_eq!(accept_job(&job(fields)).spec.max_failed, most);
    }
    for most in [-2, 1_000_001] {
        let why = format!("MaxFailed: must be between -1 (any number) and 1000000, got {most}");
        assert_eq!(problems(&job(json!({ "MaxFailed": most }))), [why]);
    }
    let why = "MaxFailed: is for batch and ops jobs; the executions of a service job do not end";
    assert_eq!(problems(&job(json!({ "Type": "service", "MaxFailed": 1 }))), [why]);
}
