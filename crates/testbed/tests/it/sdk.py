"""Runs jobs with the published Python SDK of the service whose API this one implements.

The package is used as it is. Its methods print an error and return None, so each result is checked.
The address of the service is in the variables that the package reads.
"""

import json
import time

from bacalhau_apiclient.api import orchestrator_api
from bacalhau_apiclient.models.api_put_job_request import ApiPutJobRequest
from bacalhau_apiclient.models.job import Job
from bacalhau_apiclient.models.label_selector_requirement import LabelSelectorRequirement
from bacalhau_apiclient.models.spec_config import SpecConfig
from bacalhau_apiclient.models.task import Task
from bacalhau_sdk.config import init_config
from bacalhau_sdk.jobs import Jobs

# Seconds within which a job without work ends, on a busy machine too.
PATIENCE = 60


def put(name, constraints=()):
    task = Task(
        name="main",
        engine=SpecConfig(type="noop", params={}),
        publisher=SpecConfig(type="noop", params={}),
    )
    job = Job(name=name, type="batch", count=1, tasks=[task], constraints=list(constraints))
    answer = jobs.put(ApiPutJobRequest(job=job))
    assert answer is not None and answer.job_id.startswith("j-"), answer
    return answer.job_id


def wait_for(job_id, state):
    end = time.monotonic() + PATIENCE
    while True:
        answer = jobs.get(job_id)
        assert answer is not None and answer.job.id == job_id, answer
        seen = answer.job.state.state_type
        if seen == state:
            return answer.job
        assert time.monotonic() < end, f"the job is {seen}, not {state}"
        time.sleep(0.1)


def answer():
    return json.loads(jobs.orchestrator_service.api_client.last_response.data)


jobs = Jobs()
done = put("from-the-sdk")
assert wait_for(done, "Completed").name == "from-the-sdk"

# The package reads the rows of lists from fields that the API has under other names, so the rows are
# those of the answer that it took.
assert jobs.list(limit=5, reverse=True) is not None
assert [job["ID"] for job in answer()["Jobs"]] == [done], answer()
assert jobs.executions(done) is not None
[execution] = answer()["Executions"]
assert execution["JobID"] == done, execution
assert jobs.history(done) is not None
history = answer()["History"]
assert history and all(event["ExecutionID"] == execution["ID"] for event in history), history
assert jobs.history(done, event_type="job", execution_id=execution["ID"]) is not None
assert jobs.results(done) is not None
assert answer()["Results"] == [], answer()

absent = LabelSelectorRequirement(key="zone", operator="exists", values=[])
waits = put("waits", [absent])
stopped = jobs.stop(waits, reason="not needed")
assert stopped is not None and stopped.evaluation_id, stopped
wait_for(waits, "Stopped")

nodes = orchestrator_api.OrchestratorApi(orchestrator_api.ApiClient(init_config()))
assert nodes.orchestratorlist_nodes() is not None
listed = json.loads(nodes.api_client.last_response.data)["Nodes"]
assert len(listed) == 2, listed
print(f"the jobs {done} and {waits} went as they should")
