//! The parameters of an operation as a type: one definition both parses and describes them.
//!
//! [`query!`](crate::http::query::query) makes a struct of fields, each with its name in the query
//! string, its [`Shape`] and its description; a field may also be a `part` that several operations
//! share. The parser and the OpenAPI document both derive from that one list.

use daemon::http::Query;
use serde_json::Value;
use utoipa::openapi::path::{Parameter, ParameterBuilder, ParameterIn};
use utoipa::openapi::{RefOr, Required, Schema};

use crate::http::error::Failure;

/// A type of parameter: how to parse and how to describe it.
pub(in crate::http) trait Shape {
    type Value;

    /// Whether the parameter is required.
    const REQUIRED: bool = false;

    fn read(&self, query: &Query, key: &'static str) -> Result<Self::Value, Failure>;

    /// Its JSON schema, with the default if there is one.
    fn schema(&self) -> Value;
}

/// All parameters of an operation, or a part of them.
pub(in crate::http) trait Parameters: Sized {
    fn read(query: &Query) -> Result<Self, Failure>;
    fn describe(described: &mut Vec<Parameter>);
}

pub(in crate::http) fn described<S: Shape>(shape: &S, name: &str, description: &str) -> Parameter {
    let required = if S::REQUIRED { Required::True } else { Required::False };
    let schema: RefOr<Schema> = api_types::openapi::schema(shape.schema());
    ParameterBuilder::new()
        .name(name)
        // Call before `required`: without a location, the builder makes every parameter required.
        .parameter_in(ParameterIn::Query)
        .required(required)
        .description(Some(description))
        .schema(Some(schema))
        .build()
}

/// Makes structs of query parameters; see the module.
macro_rules! query {
    ($(
        $(#[$attribute:meta])*
        $visibility:vis struct $name:ident {
            $($field_visibility:vis $field:ident: $type:ty = $source:tt;)*
        }
    )*) => {$(
        $(#[$attribute])*
        $visibility struct $name {
            $($field_visibility $field: $type,)*
        }

        impl $crate::http::query::typed::Parameters for $name {
            fn read(
                query: &daemon::http::Query,
            ) -> Result<Self, $crate::http::error::Failure> {
                Ok(Self { $($field: query!(@read query, $type, $source),)* })
            }

            fn describe(described: &mut Vec<utoipa::openapi::path::Parameter>) {
                $(query!(@describe described, $type, $source);)*
            }
        }

        impl<S: Send + Sync> axum::extract::FromRequestParts<S> for $name {
            type Rejection = $crate::http::error::Failure;

            async fn from_request_parts(
                parts: &mut http::request::Parts,
                state: &S,
            ) -> Result<Self, Self::Rejection> {
                let query =
                    daemon::http::Query::from_request_parts(parts, state).await?;
                $crate::http::query::typed::Parameters::read(&query)
            }
        }

        impl utoipa::IntoParams for $name {
            fn into_params(
                _: impl Fn() -> Option<utoipa::openapi::path::ParameterIn>,
            ) -> Vec<utoipa::openapi::path::Parameter> {
                let mut described = Vec::new();
                <$name as $crate::http::query::typed::Parameters>::describe(&mut described);
                described
            }
        }
    )*};
    (@read $query:ident, $type:ty, part) => {
        <$type as $crate::http::query::typed::Parameters>::read($query)?
    };
    (@read $query:ident, $type:ty, ($name:literal, $shape:expr, $description:expr)) => {
        $crate::http::query::typed::Shape::read(&$shape, $query, $name)?
    };
    (@describe $described:ident, $type:ty, part) => {
        <$type as $crate::http::query::typed::Parameters>::describe($described)
    };
    (@describe $described:ident, $type:ty, ($name:literal, $shape:expr, $description:expr)) => {
        $described.push($crate::http::query::typed::described(&$shape, $name, $description))
    };
}

pub(in crate::http) use query;
