//! Schedules: when jobs are due, what becomes of a due time, and what is stored of it.

pub mod cron;
