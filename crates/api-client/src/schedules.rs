//! Schedules: put, list, describe, trigger and delete them.

use std::fmt::Display;

use api_types::job::CreateJob;
use api_types::routes;
use api_types::schedule::{DescribeSchedule, ListScheduleRuns, ListSchedules, PutSchedule};
use reqwest::Method;

use crate::client::{Client, segment};
use crate::error::ClientError;
use crate::query::Pairs;

impl Client {
    /// `GET /schedules`.
    pub async fn list_schedules(
        &self,
        namespace: Option<&str>,
    ) -> Result<ListSchedules, ClientError> {
        let pairs = Pairs::default().add("namespace", namespace);
        self.get(routes::SCHEDULES).query(&pairs.0).send().await
    }

    /// `GET /schedules/:name`.
    pub async fn describe_schedule(
        &self,
        namespace: Option<&str>,
        name: impl Display,
    ) -> Result<DescribeSchedule, ClientError> {
        self.on_schedule(Method::GET, namespace, name, None).await
    }

    /// `PUT /schedules/:name`: creates it, or replaces it from this moment on.
    pub async fn put_schedule(
        &self,
        namespace: Option<&str>,
        name: impl Display,
        schedule: &PutSchedule,
    ) -> Result<DescribeSchedule, ClientError> {
        self.on_schedule(Method::PUT, namespace, name, Some(schedule)).await
    }

    /// `DELETE /schedules/:name`; returns the schedule as it was.
    pub async fn delete_schedule(
        &self,
        namespace: Option<&str>,
        name: impl Display,
    ) -> Result<DescribeSchedule, ClientError> {
        self.on_schedule(Method::DELETE, namespace, name, None).await
    }

    /// `POST /schedules/:name/trigger`. With an idempotency key, a repeat starts no second job.
    pub async fn trigger_schedule(
        &self,
        namespace: Option<&str>,
        name: impl Display,
        idempotency_key: Option<&str>,
    ) -> Result<CreateJob, ClientError> {
        let pairs = Pairs::default().add("namespace", namespace);
        let path = routes::fill(routes::SCHEDULE_TRIGGER, segment(name));
        let mut call = self.call(Method::POST, &path).query(&pairs.0);
        if let Some(key) = idempotency_key {
            call = call.header("idempotency-key", key);
        }
        call.send().await
    }

    /// `GET /schedules/:name/runs`, newest first.
    pub async fn list_schedule_runs(
        &self,
        namespace: Option<&str>,
        name: impl Display,
    ) -> Result<ListScheduleRuns, ClientError> {
        let pairs = Pairs::default().add("namespace", namespace);
        self.get(&routes::fill(routes::SCHEDULE_RUNS, segment(name))).query(&pairs.0).send().await
    }

    async fn on_schedule(
        &self,
        method: Method,
        namespace: Option<&str>,
        name: impl Display,
        body: Option<&PutSchedule>,
    ) -> Result<DescribeSchedule, ClientError> {
        self.on_record(method, routes::SCHEDULE, namespace, name, body).await
    }
}
