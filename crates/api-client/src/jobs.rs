//! Jobs: create, list, describe, stop; their history, executions and results.

use std::fmt::Display;
use std::time::Duration;

use api_types::execution::{ListExecutions, ListResults};
use api_types::explanation::Explanation;
use api_types::graph::CreateGraph;
use api_types::history::ListHistory;
use api_types::job::{CreateJob, DescribeJob, DryRun, Job, ListJobs, StopJob};
use api_types::rerun::RerunJobRequest;
use api_types::routes;
use api_types::slots::DescribeSlots;
use api_types::submission::{CreateJobRequest, JobSubmission};
use api_types::summary::ListJobSummaries;
use bytes::Bytes;
use reqwest::Method;

use crate::call::Call;
use crate::client::{Client, segment};
use crate::error::ClientError;
use crate::query::Pairs;

/// Selects and orders jobs; the service has a default for each absent field.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct JobsQuery {
    /// `*` means all.
    pub namespace: Option<String>,
    /// Label selectors; all must match.
    pub labels: Vec<String>,
    /// Job states separated by commas; one must match.
    pub state: Option<String>,
    pub job_type: Option<String>,
    pub name: Option<String>,
    pub name_prefix: Option<String>,
    pub created_after: Option<String>,
    pub created_before: Option<String>,
    pub limit: Option<u32>,
    pub next_token: Option<String>,
    pub order_by: Option<String>,
    pub reverse: bool,
}

/// Selects events of a job's history.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct HistoryQuery {
    /// Unix seconds or RFC 3339.
    pub since: Option<String>,
    /// `job`, `execution` or `all`.
    pub event_type: Option<String>,
    pub execution_id: Option<String>,
    pub node_id: Option<String>,
    pub limit: Option<u32>,
    pub next_token: Option<String>,
}

/// Selects and orders executions of a job.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ExecutionsQuery {
    /// Words or numbers, separated by commas.
    pub state: Option<String>,
    /// As `3,17,90-99`.
    pub index: Option<String>,
    pub limit: Option<u32>,
    pub next_token: Option<String>,
    pub order_by: Option<String>,
    pub reverse: bool,
}

/// Selects results of a job.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ResultsQuery {
    pub limit: Option<u32>,
    pub next_token: Option<String>,
}

impl Client {
    /// `PUT /jobs`. With an idempotency key, a repeated request does not create a second job.
    pub async fn create_job(
        &self,
        job: &JobSubmission,
        idempotency_key: Option<&str>,
    ) -> Result<CreateJob, ClientError> {
        let body = CreateJobRequest { job: Some(job.clone()) };
        let mut call = self.call(Method::PUT, routes::JOBS).json(&body);
        if let Some(key) = idempotency_key {
            call = call.header("idempotency-key", key);
        }
        call.send().await
    }

    /// `PUT /jobs` with a raw body, such as the contents of a file.
    pub async fn create_job_raw(
        &self,
        body: Bytes,
        idempotency_key: Option<&str>,
    ) -> Result<CreateJob, ClientError> {
        let mut call = self.call(Method::PUT, routes::JOBS).json_bytes(body);
        if let Some(key) = idempotency_key {
            call = call.header("idempotency-key", key);
        }
        call.send().await
    }

    /// `PUT /jobs?dry_run=true`: what would be stored, and which nodes would be chosen.
    pub async fn dry_run_job(&self, job: &JobSubmission) -> Result<DryRun, ClientError> {
        let body = CreateJobRequest { job: Some(job.clone()) };
        let call = self.call(Method::PUT, routes::JOBS).json(&body);
        call.query(&[("dry_run", "true".to_owned())]).send().await
    }

    /// The same with a raw body.
    pub async fn dry_run_job_raw(&self, body: Bytes) -> Result<DryRun, ClientError> {
        let call = self.call(Method::PUT, routes::JOBS).json_bytes(body);
        call.query(&[("dry_run", "true".to_owned())]).send().await
    }

    /// `GET /jobs`.
    pub async fn list_jobs(&self, query: &JobsQuery) -> Result<ListJobs, ClientError> {
        self.get(routes::JOBS).query(&query.pairs().0).send().await
    }

    /// `GET /jobs?view=summary`: the same jobs without their specifications.
    pub async fn summarise_jobs(&self, query: &JobsQuery) -> Result<ListJobSummaries, ClientError> {
        let mut pairs = query.pairs().0;
        pairs.push(("view", "summary".to_owned()));
        self.get(routes::JOBS).query(&pairs).send().await
    }

    /// `GET /jobs/:id`; the id may be short.
    pub async fn describe_job(&self, id: impl Display) -> Result<Job, ClientError> {
        let response: DescribeJob =
            self.get(&routes::fill(routes::JOB, segment(id))).send().await?;
        Ok(response.job)
    }

    /// `GET /jobs/:id/explain`: what it waits for, and what failed.
    pub async fn explain_job(&self, id: impl Display) -> Result<Explanation, ClientError> {
        self.get(&routes::fill(routes::JOB_EXPLAIN, segment(id))).send().await
    }

    /// Returns the job once its revision exceeds `after_revision`, or after `wait`.
    pub async fn await_job(
        &self,
        id: impl Display,
        wait: Duration,
        after_revision: u64,
    ) -> Result<Job, ClientError> {
        let response: DescribeJob = self
            .get(&routes::fill(routes::JOB, segment(id)))
            .query(&[
                ("wait", format!("{}ms", wait.as_millis())),
                ("after_revision", after_revision.to_string()),
            ])
            .extend_timeout(wait)
            .send()
            .await?;
        Ok(response.job)
    }

    /// `DELETE /jobs/:id`; the reason goes into the history.
    pub async fn stop_job(&self, id: impl Display, reason: &str) -> Result<StopJob, ClientError> {
        let reason = (!reason.is_empty()).then_some(reason);
        self.call(Method::DELETE, &routes::fill(routes::JOB, segment(id)))
            .query(&Pairs::default().add("reason", reason).0)
            .send()
            .await
    }

    /// `POST /jobs/:id/rerun`: a new job for indexes of one that has ended.
    pub async fn rerun_job(
        &self,
        id: impl Display,
        request: &RerunJobRequest,
        idempotency_key: Option<&str>,
    ) -> Result<CreateJob, ClientError> {
        self.rerun(id, request, idempotency_key).send().await
    }

    /// The same with `Downstream`: a graph of the job and of what did not run because of it.
    pub async fn rerun_downstream(
        &self,
        id: impl Display,
        request: &RerunJobRequest,
        idempotency_key: Option<&str>,
    ) -> Result<CreateGraph, ClientError> {
        let request = RerunJobRequest { downstream: Some(true), ..request.clone() };
        self.rerun(id, &request, idempotency_key).send().await
    }

    fn rerun(
        &self,
        id: impl Display,
        request: &RerunJobRequest,
        idempotency_key: Option<&str>,
    ) -> Call<'_> {
        let path = routes::fill(routes::JOB_RERUN, segment(id));
        let call = self.call(Method::POST, &path).json(request);
        match idempotency_key {
            Some(key) => call.header("idempotency-key", key),
            None => call,
        }
    }

    /// `POST /jobs/:id/rerun?dry_run=true`: which indexes would run, and where.
    pub async fn dry_run_rerun(
        &self,
        id: impl Display,
        request: &RerunJobRequest,
    ) -> Result<DryRun, ClientError> {
        let call = self.call(Method::POST, &routes::fill(routes::JOB_RERUN, segment(id)));
        call.json(request).query(&[("dry_run", "true".to_owned())]).send().await
    }

    /// `GET /jobs/:id/history`.
    pub async fn job_history(
        &self,
        id: impl Display,
        query: &HistoryQuery,
    ) -> Result<ListHistory, ClientError> {
        self.get(&routes::fill(routes::JOB_HISTORY, segment(id)))
            .query(&query.pairs().0)
            .send()
            .await
    }

    /// `GET /jobs/:id/executions`.
    pub async fn job_executions(
        &self,
        id: impl Display,
        query: &ExecutionsQuery,
    ) -> Result<ListExecutions, ClientError> {
        self.get(&routes::fill(routes::JOB_EXECUTIONS, segment(id)))
            .query(&query.pairs().0)
            .send()
            .await
    }

    /// `GET /jobs/:id/slots`: what became of the indexes, in at most `buckets` ranges.
    pub async fn job_slots(
        &self,
        id: impl Display,
        buckets: Option<u32>,
    ) -> Result<DescribeSlots, ClientError> {
        let pairs = Pairs::default().add("buckets", buckets);
        self.get(&routes::fill(routes::JOB_SLOTS, segment(id))).query(&pairs.0).send().await
    }

    /// `GET /jobs/:id/results`.
    pub async fn job_results(
        &self,
        id: impl Display,
        query: &ResultsQuery,
    ) -> Result<ListResults, ClientError> {
        self.get(&routes::fill(routes::JOB_RESULTS, segment(id)))
            .query(&query.pairs().0)
            .send()
            .await
    }
}

// === impl JobsQuery ===

impl JobsQuery {
    fn pairs(&self) -> Pairs {
        Pairs::default()
            .add("namespace", self.namespace.as_ref())
            .add_all("labels", &self.labels)
            .add("state", self.state.as_ref())
            .add("type", self.job_type.as_ref())
            .add("name", self.name.as_ref())
            .add("name_prefix", self.name_prefix.as_ref())
            .add("created_after", self.created_after.as_ref())
            .add("created_before", self.created_before.as_ref())
            .add("limit", self.limit)
            .add("next_token", self.next_token.as_ref())
            .add("order_by", self.order_by.as_ref())
            .add_flag("reverse", self.reverse)
    }
}

// === impl HistoryQuery ===

impl HistoryQuery {
    fn pairs(&self) -> Pairs {
        Pairs::default()
            .add("since", self.since.as_ref())
            .add("event_type", self.event_type.as_ref())
            .add("execution_id", self.execution_id.as_ref())
            .add("node_id", self.node_id.as_ref())
            .add("limit", self.limit)
            .add("next_token", self.next_token.as_ref())
    }
}

// === impl ExecutionsQuery ===

impl ExecutionsQuery {
    fn pairs(&self) -> Pairs {
        Pairs::default()
            .add("state", self.state.as_ref())
            .add("index", self.index.as_ref())
            .add("limit", self.limit)
            .add("next_token", self.next_token.as_ref())
            .add("order_by", self.order_by.as_ref())
            .add_flag("reverse", self.reverse)
    }
}

// === impl ResultsQuery ===

impl ResultsQuery {
    fn pairs(&self) -> Pairs {
        Pairs::default().add("limit", self.limit).add("next_token", self.next_token.as_ref())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn absent_fields_are_not_sent() {
        assert!(JobsQuery::default().pairs().0.is_empty());
        let query = JobsQuery {
            namespace: Some("*".to_owned()),
            labels: vec!["a=1".to_owned(), "b".to_owned()],
            limit: Some(3),
            reverse: true,
            ..JobsQuery::default()
        };
        let expected = [
            ("namespace", "*"),
            ("labels", "a=1"),
            ("labels", "b"),
            ("limit", "3"),
            ("reverse", "true"),
        ];
        assert_eq!(query.pairs().0, expected.map(|(name, value)| (name, value.to_owned())));
    }
}
