//! What goes over the wire, as far as it is the same for all features.
//!
//! Messages are JSON values, of which the protocol's names are written where they are used, rather
//! than structs of the crate `lsp-types`. That crate has had no release since June 2024, and brings
//! a second `bitflags` and a parser of URIs, which are names here that are only given back. Of its
//! structs this server needs a few fields each, and a field that is wrong is refused by its path
//! ([`Params::get`]).

use serde::de::DeserializeOwned;
use serde_json::{Value, json};

pub(super) const PARSE_ERROR: i32 = -32700;
pub(super) const INVALID_REQUEST: i32 = -32600;
pub(super) const METHOD_NOT_FOUND: i32 = -32601;
pub(super) const INVALID_PARAMS: i32 = -32602;
pub(super) const INTERNAL_ERROR: i32 = -32603;
pub(super) const NOT_INITIALIZED: i32 = -32002;
pub(super) const CANCELLED: i32 = -32800;
pub(super) const CONTENT_MODIFIED: i32 = -32801;
pub(super) const REQUEST_FAILED: i32 = -32803;

/// Why a request has no result.
#[derive(Clone, Debug)]
pub(super) struct Failure {
    pub(super) code: i32,
    pub(super) message: String,
}

impl Failure {
    pub(super) fn new(code: i32, message: impl Into<String>) -> Failure {
        Failure { code, message: message.into() }
    }
}

/// What was sent with a method.
#[derive(Clone, Copy)]
pub(super) struct Params<'a>(pub(super) &'a Value);

impl Params<'_> {
    /// The value at `path`, such as `/textDocument/uri`.
    pub(super) fn get<T: DeserializeOwned>(self, path: &str) -> Result<T, Failure> {
        let Some(value) = self.0.pointer(path) else {
            return Err(Failure::new(INVALID_PARAMS, format!("the parameters lack `{path}`")));
        };
        T::deserialize(value).map_err(|error| {
            Failure::new(INVALID_PARAMS, format!("the parameter `{path}`: {error}"))
        })
    }
}

/// The answer to request `id`.
pub(super) fn answer(id: &Value, answer: Result<Value, Failure>) -> Value {
    match answer {
        Ok(result) => json!({ "jsonrpc": "2.0", "id": id, "result": result }),
        Err(error) => failure(id, &error),
    }
}

/// The answer that request `id` failed.
pub(super) fn failure(id: &Value, failure: &Failure) -> Value {
    let error = json!({ "code": failure.code, "message": failure.message });
    json!({ "jsonrpc": "2.0", "id": id, "error": error })
}

/// A message without an answer.
pub(super) fn notification(method: &str, params: Value) -> Value {
    json!({ "jsonrpc": "2.0", "method": method, "params": params })
}
