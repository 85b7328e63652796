"""Runs a job with a client that was generated from the service's OpenAPI document.

The arguments are the base URL of the service and the directory with the package `generated`.
"""

import sys
import time

base_url, directory = sys.argv[1:]
sys.path.insert(0, directory)

from generated import Client
from generated.api.jobs import create_job, describe_job, list_executions, list_history
from generated.models import (
    CreateJob,
    CreateJobRequest,
    DescribeJob,
    EngineSubmissionType2,
    EngineSubmissionType2Type,
    JobStateType,
    JobSubmission,
    JobType,
    ListExecutions,
    ListHistory,
    TaskSubmission,
)

# Seconds within which a job without work ends, on a busy machine too.
PATIENCE = 60

client = Client(base_url=base_url, raise_on_unexpected_status=True)
engine = EngineSubmissionType2(type_=EngineSubmissionType2Type.NOOP)
task = TaskSubmission(name="main", engine=engine)
job = JobSubmission(name="generated", type_=JobType.BATCH, count=1, tasks=[task])

created = create_job.sync(client=client, body=CreateJobRequest(job=job))
assert isinstance(created, CreateJob), created

end = time.monotonic() + PATIENCE
while True:
    described = describe_job.sync(created.job_id, client=client, wait="1s")
    assert isinstance(described, DescribeJob), described
    state = described.job.state.state_type
    if state in (JobStateType.COMPLETED, JobStateType.FAILED, JobStateType.STOPPED):
        break
    assert time.monotonic() < end, f"the job is still {state}"
assert state == JobStateType.COMPLETED, described.job.state

executions = list_executions.sync(created.job_id, client=client)
assert isinstance(executions, ListExecutions), executions
assert [execution.job_id for execution in executions.executions] == [created.job_id]
history = list_history.sync(created.job_id, client=client, since="1h")
assert isinstance(history, ListHistory), history
assert history.history, "the history is empty"

absent = describe_job.sync("j-00000000-0000-4000-8000-000000000000", client=client)
assert absent.status == 404, absent
assert absent.code.value == "JobNotFound", absent
print(f"job {created.job_id} is {state.value}")
