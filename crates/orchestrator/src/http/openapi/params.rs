//! Parameters in paths and headers; the types that read query parameters describe those.

use api_types::openapi::schema;
use serde_json::{Value, json};
use utoipa::IntoParams;
use utoipa::openapi::Required;
use utoipa::openapi::path::{Parameter, ParameterBuilder, ParameterIn};

fn parameter(place: ParameterIn, name: &str, described: &str, json: Value) -> Parameter {
    let required = if place == ParameterIn::Path { Required::True } else { Required::False };
    ParameterBuilder::new()
        .name(name)
        // Call before `required`: without a location, the builder makes every parameter required.
        .parameter_in(place)
        .required(required)
        .description(Some(described))
        .schema(Some(schema(json)))
        .build()
}

/// Sets of parameters, each a type only so that a handler's attribute can name it.
macro_rules! parameters {
    ($($name:ident: $place:ident { $($wire:literal, $described:literal, $schema:tt;)* })*) => {$(
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
    GraphPath: Path {
        "graph_id", "The graph's ID.", {
            "type": "string",
            "pattern": "^g-[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}$",
        };
    }
    ExecutionPath: Path {
        "execution_id",
        "The execution's ID, or a unique prefix with at least 8 characters of its UUID.",
        {
            "type": "string",
            "pattern": "^e-[0-9a-fA-F]{8}(-[0-9a-fA-F-]{0,27})?$",
        };
    }
    NodePath: Path {
        "node_id", "The node's ID, or a unique prefix with at least 8 characters of its UUID.", {
            "type": "string",
            "pattern": "^n-[0-9a-fA-F]{8}(-[0-9a-fA-F-]{0,27})?$",
        };
    }
    OwnNodePath: Path {
        "node_id", "The node's own full ID, which it creates once and keeps.", {
            "type": "string",
            "pattern": "^n-[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}$",
        };
    }
    StreamPath: Path {
        "stream_id", "The `StreamID` of the line that requested it.", {
            "type": "string", "format": "uuid",
        };
    }
    TokenPath: Path {
        "token_id", "The token's ID: the 16 characters after `jt1_` or `jm1_`.", {
            "type": "string", "pattern": "^[0-9a-f]{16}$",
        };
    }
    NodeTokenPath: Path {
        "token_id", "The token's ID: the 16 characters after `jn1.`.", {
            "type": "string", "pattern": "^[0-9a-f]{16}$",
        };
    }
    NamespacePath: Path {
        "namespace", "The name of the namespace.", {
            "type": "string", "pattern": "^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$",
        };
    }
    SecretPath: Path {
        "name", "The name of the secret.", {
            "type": "string", "pattern": "^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$",
        };
    }
    CredentialPath: Path {
        "name", "The name of the credentials.", {
            "type": "string", "pattern": "^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$",
        };
    }
    GroupPath: Path {
        "name", "The name of the concurrency group.", {
            "type": "string", "pattern": "^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$",
        };
    }
    SchedulePath: Path {
        "name", "The name of the schedule.", {
            "type": "string", "pattern": "^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$",
        };
    }
    IdempotencyKey: Header {
        "Idempotency-Key",
        "Makes a repetition harmless: within 24 hours the same key with the same body is answered \
         with the first answer.",
        { "type": "string", "pattern": "^[!-~]{1,255}$" };
    }
    Ranges: Header {
        "Range", "`bytes=N-` or `bytes=N-M`; for other ranges everything is sent.", {
            "type": "string",
        };
        "If-Range", "The `ETag` of the interrupted download.", { "type": "string" };
    }
    LastChangeId: Header {
        "Last-Event-ID", "Resumes after this message.", { "type": "string" };
    }
    LastEventId: Header {
        "Last-Event-ID", "Resumes after this event.", {
            "type": "integer", "format": "uint64", "minimum": 0,
        };
    }
}
