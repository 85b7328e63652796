//! Examples of what nodes ask about inputs that are results of other jobs.

use api_types::job_input::{
    Archives, InputArchiveRequest, InputResult, InputResults, InputResultsRequest,
};

use super::records::EXECUTION;

pub(in crate::http) fn input_results_request() -> InputResultsRequest {
    InputResultsRequest { execution_id: EXECUTION, input: 0 }
}

pub(in crate::http) fn input_results() -> InputResults {
    let result = InputResult { index: 0, execution_id: EXECUTION, source: None };
    InputResults {
        job: "build".to_owned(),
        required: true,
        results: vec![result],
        credentials: Vec::new(),
    }
}

pub(in crate::http) fn input_archive_request() -> InputArchiveRequest {
    InputArchiveRequest { execution_id: EXECUTION, input: 0, published_by: EXECUTION }
}

pub(in crate::http) fn archives() -> Archives {
    Archives { executions: vec![EXECUTION] }
}
