//! The parameters that operations share, and those that need a schema of their own.

use api_types::openapi::schema;
use serde_json::{Value, json};
use utoipa::IntoParams;
use utoipa::openapi::Required;
use utoipa::openapi::path::{Parameter, ParameterBuilder, ParameterIn};

/// Beside the schema of a parameter that must come; path parameters always must.
const REQUIRED: &str = "required";

fn parameter(place: ParameterIn, name: &str, described: &str, mut json: Value) -> Parameter {
    let asked = json.as_object_mut().and_then(|schema| schema.remove(REQUIRED));
    let required = match (&place, asked) {
        (ParameterIn::Path, _) | (_, Some(Value::Bool(true))) => Required::True,
        _ => Required::False,
    };
    ParameterBuilder::new()
        .name(name)
        // After the place: a builder without one makes every parameter a required one.
        .parameter_in(place)
        .required(required)
        .description(Some(described))
        .schema(Some(schema(json)))
        .build()
}

/// Sets of parameters; each is a type only so that the attribute of a handler can name it.
macro_rules! parameters {
    ($($(#[$doc:meta])* $name:ident: $place:ident { $($wire:literal, $described:literal, $schema:tt;)* })*) => {$(
        $(#[$doc])*
        pub(in crate::http) enum $name {}

        impl IntoParams for $name {
            fn into_params(_: impl Fn() -> Option<ParameterIn>) -> Vec<Parameter> {
                vec![$(parameter(ParameterIn::$place, $wire, $described, json!($schema))),*]
            }
        }
    )*};
}

parameters! {
    JobPath: Path {
        "job_id", "The job's ID, or a unique prefix with at least 8 characters of its UUID.", {
            "type": "string",
            "pattern": "^j-[0-9a-fA-F]{8}(-[0-9a-fA-F-]{0,27})?$",
        };
    }
    NodePath: Path {
        "node_id", "The node's ID, or a unique prefix with at least 8 characters of its UUID.", {
            "type": "string",
            "pattern": "^n-[0-9a-fA-F]{8}(-[0-9a-fA-F-]{0,27})?$",
        };
    }
    OwnNodePath: Path {
        "node_id", "The node's own full ID, which it mints once and keeps.", {
            "type": "string",
            "pattern": "^n-[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}$",
        };
    }
    StreamPath: Path {
        "stream_id", "The `StreamID` of the line that asked for it.", {
            "type": "string", "format": "uuid",
        };
    }
    OldPath: Path {
        "rest", "Any path of the old group.", { "type": "string", "minLength": 1 };
    }
    /// A page of a list of things that are few on a screen.
    TenAPage: Query {
        "limit", "Rows of a page; 0 is the default, above 1,000 it is 1,000.", {
            "type": "integer", "minimum": 0, "default": 10,
        };
        "next_token", "The `NextToken` of the page before.", { "type": "string" };
    }
    /// A page of a list of parts of a job.
    HundredAPage: Query {
        "limit", "Rows of a page; 0 is the default, above 1,000 it is 1,000.", {
            "type": "integer", "minimum": 0, "default": 100,
        };
        "next_token", "The `NextToken` of the page before.", { "type": "string" };
    }
    Reverse: Query {
        "reverse", "Inverts the order. `1`, `0` and a name that stands alone are taken, too.", {
            "type": "boolean", "default": false,
        };
    }
    Labels: Query {
        "labels",
        "A selector: requirements separated by commas (`key`, `!key`, `key=v`, `key!=v`, \
         `key in (a,b)`, `key notin (a,b)`, `key>5`, `key<5`), all of which must hold; may come \
         several times.",
        { "type": "array", "items": { "type": "string" } };
    }
    JobFilters: Query {
        "namespace", "The jobs of one namespace, or `*` for all.", {
            "type": "string", "default": "default",
        };
        "state", "A comma list of job states.", {
            "type": "string",
            "pattern": "^[A-Za-z, ]*$",
            "examples": ["Pending,Queued,Running"],
        };
        "type", "One job type.", {
            "type": "string", "enum": ["batch", "ops", "service", "daemon"],
        };
        "name", "The exact name.", { "type": "string" };
        "created_after", "At or after: Unix seconds, perhaps with a fraction, or RFC 3339.", {
            "anyOf": [
                { "type": "number" },
                { "type": "string", "format": "date-time" },
                { "type": "string", "maxLength": 0 },
            ],
        };
        "created_before", "Before: Unix seconds, perhaps with a fraction, or RFC 3339.", {
            "anyOf": [
                { "type": "number" },
                { "type": "string", "format": "date-time" },
                { "type": "string", "maxLength": 0 },
            ],
        };
    }
    JobOrder: Query {
        "order_by", "What the list is ordered by; ties are broken by ID.", {
            "type": "string", "enum": ["create_time", "id"], "default": "create_time",
        };
    }
    ExecutionOrder: Query {
        "order_by", "What the list is ordered by; ties are broken by ID.", {
            "type": "string",
            "enum": ["modify_time", "create_time", "id", "state"],
            "default": "modify_time",
        };
    }
    NodeOrder: Query {
        "order_by", "What the list is ordered by; ties are broken by ID.", {
            "type": "string",
            "enum": [
                "id", "type", "available_cpu", "available_memory", "available_disk",
                "available_gpu",
            ],
            "default": "id",
        };
    }
    Waiting: Query {
        "wait",
        "How long to wait for a change: a whole number of `ms`, `s` or `m`, or of seconds when it \
         stands alone; above 5 minutes it is 5 minutes, 0 answers at once. 30 seconds where only \
         `after_revision` is there.",
        { "type": "string", "pattern": "^([0-9]{1,18}(ms|s|m)?)?$", "examples": ["30s"] };
        "after_revision",
        "The last revision that was seen; the one at the time of the request where only `wait` is \
         there.",
        { "type": "integer", "format": "uint64", "minimum": 0 };
    }
    DryRunFlag: Query {
        "dry_run", "Checks the job and says what would become of it; nothing is stored.", {
            "type": "boolean", "default": false,
        };
    }
    IdempotencyKey: Header {
        "Idempotency-Key",
        "Makes a repetition harmless: within 24 hours the same key with the same body is answered \
         with the first answer.",
        { "type": "string", "pattern": "^[!-~]{1,255}$" };
    }
    Reason: Query {
        "reason", "For the history; wins over the body's, and is cut off after 1,024 characters.", {
            "type": "string",
        };
    }
    EventFilters: Query {
        "event_type", "Events of jobs, of executions, or all.", {
            "type": "string", "enum": ["job", "execution", "all"], "default": "all",
        };
        "since", "Events at or after: Unix seconds, perhaps with a fraction, or RFC 3339.", {
            "anyOf": [
                { "type": "number" },
                { "type": "string", "format": "date-time" },
                { "type": "string", "maxLength": 0 },
            ],
        };
    }
    HistoryFilters: Query {
        "execution_id", "Events of one execution of the job; a prefix is taken.", {
            "type": "string", "pattern": "^(e-[0-9a-fA-F]{8}(-[0-9a-fA-F-]{0,27})?)?$",
        };
        "node_id", "Events of executions on one node; a prefix is taken.", {
            "type": "string", "pattern": "^(n-[0-9a-fA-F]{8}(-[0-9a-fA-F-]{0,27})?)?$",
        };
    }
    StreamOfEvents: Query {
        "job_id", "Events of one job; a prefix is taken.", {
            "type": "string", "pattern": "^(j-[0-9a-fA-F]{8}(-[0-9a-fA-F-]{0,27})?)?$",
        };
        "namespace", "Events of the jobs of one namespace; `*` for all.", {
            "type": "string", "default": "*",
        };
        "last_event_id", "Goes on after this event; the header wins.", {
            "type": "integer", "format": "uint64", "minimum": 0,
        };
    }
    LastEventId: Header {
        "Last-Event-ID", "Goes on after this event.", {
            "type": "integer", "format": "uint64", "minimum": 0,
        };
    }
    LogFilters: Query {
        "execution_id", "Only this execution of the job; a prefix is taken.", {
            "type": "string", "pattern": "^(e-[0-9a-fA-F]{8}(-[0-9a-fA-F-]{0,27})?)?$",
        };
        "follow", "Goes on until the job, or the one execution, is over.", {
            "type": "boolean", "default": false,
        };
        "tail", "Of each execution only so many of the last lines that are there now.", {
            "type": "integer", "format": "uint64", "minimum": 0,
        };
        "stream", "One of the two streams; both when absent.", {
            "type": "string", "enum": ["stdout", "stderr"],
        };
    }
    Session: Query {
        "session", "The session that the node was given when it joined.", {
            "type": "integer", "format": "uint64", "minimum": 0, "required": true,
        };
    }
}
