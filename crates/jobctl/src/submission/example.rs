//! An example of a job file, for people to change.
//!
//! It can be submitted as it is. Lines that begin with `#` without a space, or with several, are
//! fields that a job may have: without the `#`, they are right as well. The others are remarks.

use crate::cli::{Engine, InitArgs, JobType};

/// A program that prints `hello`.
const HELLO: &str = "\
    AGFzbQEAAAABDAJgBH9/f38Bf2AAAAIjARZ3YXNpX3NuYXBzaG90X3ByZXZpZXcxCGZkX3dyaXRlAAADAgEBBQMB\
    AAEHEwIGbWVtb3J5AgAGX3N0YXJ0AAEKDwENAEEBQQBBAUEUEAAaCwsUAQBBAAsOCAAAAAYAAABoZWxsbwo=";

/// The file in YAML; commands in its remarks call it by this name.
pub(crate) fn example(args: &InitArgs, file: &str) -> String {
    let (remark, count) = of_type(args.job_type);
    let wait = match args.job_type {
        JobType::Batch | JobType::Ops => "--wait ",
        JobType::Service | JobType::Daemon => "",
    };
    let job_type = args.job_type.word();
    let retries = match args.job_type {
        JobType::Batch | JobType::Ops => "{Attempts: 3, Delay: 1, MaxDelay: 60}",
        JobType::Service | JobType::Daemon => "{Attempts: 0, Delay: 1, MaxDelay: 60}",
    };
    let (engine, network) = match args.engine {
        Engine::Docker => (docker(args.job_type), "#  Network: {Type: Full}\n"),
        Engine::Wasm => (wasm(), ""),
    };
    format!(
        "\
# {remark}
# Check it with 'jobctl validate {file}', run it with 'jobctl submit {wait}{file}'.
# Fields with a # in front are optional.
Name: example
Type: {job_type}
{count}\
#Namespace: default
#Priority: 50
#Labels: {{team: search}}
#Constraints:
#- {{Key: zone, Operator: in, Values: [a, b]}}
#RetryPolicy: {retries}
Tasks:
- Name: main
{engine}  Resources:
    CPU: '0.5'
    Memory: 128MB
# Files that the task reads; other sources are urldownload, s3, repoclone and ipfs.
  InputSources:
  - Source: {{Type: inline, Params: {{URL: 'data:,the%20quick%20brown%20fox'}}}}
    Target: /inputs/words.txt
# What it writes there is published; 'jobctl get' downloads it.
#  ResultPaths:
#  - {{Name: outputs, Path: /outputs}}
#  Publisher: {{Type: local}}
#  Env: {{LEVEL: debug}}
{network}\
# Seconds.
#  Timeouts: {{ExecutionTimeout: 3600, QueueTimeout: 86400}}
"
    )
}

/// What jobs of the type do, and how many executions they have.
const fn of_type(job_type: JobType) -> (&'static str, &'static str) {
    match job_type {
        JobType::Batch => ("A job that runs to its end.", "Count: 1\n"),
        JobType::Ops => ("A job that runs to its end once on every node that matches.", ""),
        JobType::Service => ("A job of which Count executions are kept running.", "Count: 1\n"),
        JobType::Daemon => ("A job that is kept running on every node that matches.", ""),
    }
}

fn docker(job_type: JobType) -> String {
    let command = match job_type {
        JobType::Batch | JobType::Ops => "wc -w /inputs/words.txt",
        JobType::Service | JobType::Daemon => {
            "trap exit TERM; while true; do wc -w /inputs/words.txt; sleep 60 & wait; done"
        }
    };
    format!(
        "  Engine:\n    Type: docker\n    Params:\n      Image: busybox:1.37\n      Parameters: [sh, \
         -c, '{command}']\n"
    )
}

fn wasm() -> String {
    format!(
        "# The module prints 'hello'; urldownload, s3 and ipfs fetch one from elsewhere.\n  \
         Engine:\n    Type: wasm\n    Params:\n      EntryModule:\n        Source:\n          Type: \
         inline\n          Params:\n            URL: data:application/wasm;base64,{HELLO}\n\
         #      Parameters: [argument]\n"
    )
}

#[cfg(test)]
mod tests {
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;

    use super::*;

    #[test]
    fn the_module_prints_hello() {
        let text = r#"(module
            (import "wasi_snapshot_preview1" "fd_write"
                (func (param i32 i32 i32 i32) (result i32)))
            (memory (export "memory") 1)
            (data (i32.const 0) "\08\00\00\00\06\00\00\00hello\n")
            (func (export "_start")
                i32.const 1 i32.const 0 i32.const 1 i32.const 20 call 0 drop))"#;
        assert_eq!(HELLO, STANDARD.encode(wat::parse_str(text).unwrap()));
    }
}
