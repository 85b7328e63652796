// The records of the API as the pages read them; docs/api.md is the reference.

export interface Resources {
  CPU: number;
  Memory: number;
  Disk: number;
  GPU: number;
}

export interface JobState {
  StateType: string;
  Message: string;
  FailedCount?: number;
  FailedIndexes?: string;
}

export interface Slots {
  Total: number;
  Completed: number;
  Failed: number;
  Unfinished: number;
  Running: number;
  FailedIndexes: string;
  Buckets: { First: number; Last: number; Completed: number; Failed: number; Unfinished: number }[];
}

export interface Counts {
  Total: number;
  Waiting: number;
  Running: number;
  Completed: number;
  Failed: number;
}

// deno-lint-ignore no-explicit-any
export type Json = any;

export interface Job {
  ID: string;
  Name: string;
  Namespace: string;
  Type: string;
  Priority: number;
  Count?: number;
  Labels: Record<string, string>;
  Meta?: Record<string, string>;
  State: JobState;
  Version: number;
  Revision: number;
  CreateTime: number;
  ModifyTime: number;
  Constraints?: Json[];
  DependsOn?: { JobID: string; Job?: string; Condition: string; Indexes?: string }[];
  Tasks?: Json[];
  Executions?: Counts;
  StartTime?: number;
  EndTime?: number;
}

export interface Graph {
  ID: string;
  Name: string;
  Namespace: string;
  CreateTime: number;
  State: string;
  Jobs: { Name: string; JobID: string; State: string; Message: string }[];
  Edges: { From: string; To: string; Condition: string; Indexes?: string }[];
}

export interface GraphSummary {
  ID: string;
  Name: string;
  Namespace: string;
  CreateTime: number;
  State: string;
  Jobs: Record<string, number>;
}

export interface Execution {
  ID: string;
  Namespace: string;
  EvalID: string;
  Name: string;
  NodeID: string;
  JobID: string;
  AllocatedResources: { Tasks: Record<string, Resources> };
  DesiredState: { StateType: number; Message: string };
  ComputeState: { StateType: number; Message: string };
  PublishedResult: { Type: string; Params: Json };
  RunOutput: Json;
  Usage?: Json;
  PreviousExecution: string;
  NextExecution: string;
  Revision: number;
  CreateTime: number;
  ModifyTime: number;
}

/** CPU and memory over time: mean cores and most bytes of each step. */
export interface UsageCurve {
  BeginTime: number;
  EndTime: number;
  /** Seconds. */
  Step: number;
  CPU: number[];
  Memory: number[];
}

export interface NodeCurve {
  Used: UsageCurve;
  AllocatedCPU: number[];
  AllocatedMemory: number[];
}

/** What is answered of an execution or a job. */
export interface UsageAnswer {
  Curve: UsageCurve | null;
  Allocated: Resources;
  /** Of an execution whether its node answered, of a job how many did. */
  Answered: boolean | number;
  Running?: boolean;
  Nodes: number;
  Measured?: number;
  More?: boolean;
  Executions?: { ExecutionID: string; Index: number; Curve: UsageCurve }[];
}

export interface HistoryEvent {
  Type: string;
  JobID: string;
  NodeID: string;
  ExecutionID: string;
  JobState: { Previous: string; New: string } | null;
  ExecutionState: { Previous: number; New: number } | null;
  NodeState?: { Previous: string; New: string };
  JobName?: string;
  Index?: number;
  NodeName?: string;
  NewRevision: number;
  Comment: string;
  Time: string;
}

export interface NodeRecord {
  PeerInfo: { ID: string; Addrs: string[] };
  Name: string;
  NodeType: string;
  Labels: Record<string, string>;
  ComputeNodeInfo: {
    ExecutionEngines: string[];
    Publishers: string[];
    StorageSources: string[];
    MaxCapacity: Resources;
    AvailableCapacity: Resources;
    MaxJobRequirements: Resources;
    RunningExecutions: number;
    EnqueuedExecutions: number;
  };
  ServiceVersion: Json;
  Membership: string;
  Connection: string;
  Eligibility: string;
  Health: { State: string; Reason: string; Since: string; NextTry: string };
  RefusedAgent?: { Machine: string; Since: string };
  ReservedSince: string;
  LastHeartbeat: string;
  IdleSince?: string;
}

export interface Constraint {
  Key: string;
  Operator: string;
  Values: string[];
}

/** What waits for room: executions that need the same. */
export interface DemandClass {
  Namespace: string;
  Engine: string;
  Publisher: string;
  StorageSources: string[];
  Constraints: Constraint[];
  Resources: { CPU?: number; Memory?: number; Disk: number; GPU: number };
  Priority: number;
  Jobs: number;
  Slots: number;
  SlotsIsMore: boolean;
  Since: string;
  Message: string;
  CapableNodes: number;
  OpenNodes: number;
}

export interface Demand {
  Time: string;
  Classes: DemandClass[];
  More: boolean;
}

/** An orchestrator, as it describes itself. */
export interface Member {
  ID: string;
  Address: string;
  Leads: boolean;
  Ready: boolean;
  LastSeen: string;
  Release: string;
  DifferentSettings: string[];
}

export interface Members {
  Store: { Kind: string };
  Members: Member[];
}

export interface NodeVerdict {
  NodeID: string;
  Chosen: boolean;
  Reason: string;
}

/** Nodes that do not take an execution now, for one reason. */
export interface ReasonGroup {
  Reason: string;
  Nodes: number;
  NodeIDs: string[];
  Message: string;
  Asked?: number;
  Largest?: number;
  Free?: number;
  Key?: string;
  Wanted?: string;
  Found?: string[];
}

export interface Explanation {
  JobID: string;
  State: string;
  Message: string;
  Title: string;
  Hopeless: boolean;
  Groups: ReasonGroup[];
  Executions: Counts;
  Waiting: null | {
    Since: string;
    Ahead: number;
    AheadIsMore: boolean;
    Slots: number;
    ReservedNode: string;
  };
  Gates: { Type: string; Slots: number; Since: string; Message: string }[];
  Nodes: NodeVerdict[];
  Failures: {
    ExecutionID: string;
    NodeID: string;
    State: number;
    Reason: string;
    Time: string;
  }[];
}

export interface Cluster {
  Time: string;
  Jobs: Record<string, number>;
  Executions: { Starting: number; Running: number };
  Nodes: Record<string, number>;
  Capacity: Resources;
  Allocated: Resources;
  OldestWait: string;
}

export interface LoadSample {
  Time: string;
  Capacity: Resources;
  Allocated: Resources;
  Nodes: number;
  Queued: number;
  Running: number;
  Completed: number;
  Failed: number;
}

export interface Identity {
  Name: string;
  Role: string;
  Namespaces: string[];
  TokenID: string;
  ExpireTime: string;
}

export interface SignInMethods {
  OIDC: { Issuer: string; ClientID: string; Scopes: string; Confidential: boolean; CA: string } | null;
}

export interface Token {
  ID: string;
  Name: string;
  Role: string;
  Namespaces: string[];
  CreatedBy: string;
  CreateTime: string;
  ExpireTime: string;
  LastUseTime: string;
}

export interface Permissions {
  Engines?: string[];
  Networks?: string[];
  Sources?: string[];
  Publishers?: string[];
  Registries?: string[];
  Capabilities?: boolean;
}

export interface Quota {
  CPU?: string;
  Memory?: string;
  GPU?: string;
  Executions?: number;
  QueuedExecutions?: number;
}

export interface Namespace {
  Name: string;
  Description: string;
  Permissions: Permissions;
  Nodes: string;
  MaxPriority: number;
  Quota?: Quota;
  Weight: number;
  Usage: {
    CPU: string;
    Memory: number;
    GPU: number;
    Executions: number;
    QueuedExecutions: number;
    Share: number;
  };
  CreateTime: string;
  ModifyTime: string;
}

/** What became of a due time. */
export interface ScheduleRun {
  ScheduledTime: string;
  Time: string;
  Outcome: "Started" | "Queued" | "Skipped" | "Refused";
  Reason?: string;
  JobID?: string;
  Triggered?: boolean;
}

export interface Schedule {
  Name: string;
  Namespace: string;
  Cron: string;
  TimeZone: string;
  Overlap: string;
  CatchUp: string;
  Paused: boolean;
  NextTimes: string[];
  Queued: number;
  LastRun?: ScheduleRun;
}

export interface GroupJob {
  JobID: string;
  Name: string;
  Executions?: number;
}

export interface Group {
  Name: string;
  Namespace: string;
  Limit: number;
  Running: number;
  Holding: number;
  Waiting: number;
  WaitingIsMore?: boolean;
  Holders?: GroupJob[];
  Waiters?: GroupJob[];
  CreateTime: string;
  ModifyTime: string;
}

export interface Secret {
  Name: string;
  Namespace: string;
  Version: number;
  CreateTime: string;
  ModifyTime: string;
}

export interface Credential extends Secret {
  Type: string;
  Hosts: string[];
  Buckets: string[];
}

export interface NodeToken {
  ID: string;
  Labels: Record<string, string>;
  NodeID?: string;
  MaxCapacity?: Resources;
  UsesLeft: number;
  CreateTime: string;
  ExpireTime: string;
}

export interface AuditRecord {
  Chain: "changes" | "rest";
  Sequence: number;
  Time: string;
  User: string;
  TokenID: string;
  Address: string;
  Operation: string;
  Object: string;
  RequestID: string;
  Outcome: "done" | "denied";
  Count: number;
  Previous: string;
  Hash: string;
}

/** What may have changed on the server. */
export interface Change {
  /** Everything may have changed: a gap, or a server that does not say. */
  all: boolean;
  jobs: Set<string>;
  nodes: Set<string>;
  cluster: boolean;
}

/** What a visit leaves for the reader who comes back to it. */
export interface Kept {
  scroll: number;
  rows: number;
}

/** One visit of a route; `signal` aborts when the reader leaves it. */
export interface Visit {
  kept: Kept;
  path: string;
  params: Record<string, string>;
  query: URLSearchParams;
  signal: AbortSignal;
}

/** What a page hands to the router. */
export interface Shown {
  title: string;
  element: HTMLElement;
  /** Takes another visit of the same page; true if the page handled it without being built again. */
  update?: (visit: Visit) => boolean;
}

/** A state as every page shows it. */
export interface Look {
  word: string;
  tone: "waiting" | "running" | "completed" | "failed" | "attention";
  icon: string;
}
