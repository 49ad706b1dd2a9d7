//! A plain HTTP client: sends what it is told, and keeps what came back as it came.
use crate::machine::now;
use bytes::Bytes;
use http::{HeaderMap, Method, Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper_util::client::legacy::Client as Pool;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::time::Duration;
use tokio::time::timeout;

/// One request to be sent.
#[derive(Debug, Clone)]
pub struct Call {
    method: Method,
    path: String,
    headers: Vec<(String, String)>,
    body: Bytes,
    limit: Duration,
}

impl Call {
    /// A GET.
    #[must_use]
    pub fn get(path: &str) -> Self {
        Self {
            method: Method::GET,
            path: path.to_owned(),
            headers: Vec::new(),
            body: Bytes::new(),
            limit: Duration::from_secs(30),
        }
    }

    /// A POST of any bytes, said to be JSON.
    #[must_use]
    pub fn post(path: &str, body: impl Into<Bytes>) -> Self {
        let json = ("content-type".to_owned(), "application/json".to_owned());
        Self { method: Method::POST, headers: vec![json], body: body.into(), ..Self::get(path) }
    }

    /// A chat completion of this model with this body besides: `fields` must be an object.
    #[must_use]
    pub fn chat(model: &str, fields: &Value) -> Self {
        let mut body = json!({"model": model, "messages": [{"role": "user", "content": "hi"}]});
        for (name, value) in fields.as_object().expect("the fields of a body are an object") {
            body[name] = value.clone();
        }
        Self::post("/v1/chat/completions", body.to_string())
    }

    /// With a bearer key.
    #[must_use]
    pub fn key(self, key: &str) -> Self {
        self.header("authorization", &format!("Bearer {key}"))
    }

    /// With a header.
    #[must_use]
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// With another method.
    #[must_use]
    pub fn method(mut self, method: Method) -> Self {
        self.method = method;
        self
    }
}

/// An answer, complete.
#[derive(Debug, Clone)]
pub struct Reply {
    /// HTTP status.
    pub status: u16,
    /// As they came.
    pub headers: HeaderMap,
    /// As it came.
    pub body: Bytes,
    /// From the first byte sent to the last one read.
    pub took: Duration,
}

impl Reply {
    /// The body as text.
    #[must_use]
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// The body as JSON; fails with the text if it is none.
    #[must_use]
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|_| panic!("{} and no JSON: {}", self.status, self.text()))
    }

    /// A header's text; empty if it did not come.
    #[must_use]
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
    }

    /// The data of each server-sent event.
    #[must_use]
    pub fn events(&self) -> Vec<String> {
        self.text()
            .split("\n\n")
            .filter_map(|block| Some(block.strip_prefix("data:")?.trim().to_owned()))
            .collect()
    }
}

/// An answer of which the head has come and the body is coming. Dropped, it closes the connection.
#[derive(Debug)]
pub struct Open {
    /// HTTP status.
    pub status: u16,
    /// As they came.
    pub headers: HeaderMap,
    body: Incoming,
}

impl Open {
    /// The next piece of the body, within 10 s; `None` at its end.
    pub async fn next(&mut self) -> Option<String> {
        loop {
            let frame = timeout(Duration::from_secs(10), self.body.frame()).await.expect("the body went on");
            if let Ok(data) = frame?.expect("the body is whole").into_data() {
                return Some(String::from_utf8_lossy(&data).into_owned());
            }
        }
    }
}

/// Talks to one address over connections that it keeps.
#[derive(Debug)]
pub struct Client {
    address: SocketAddr,
    pool: Pool<HttpConnector, Full<Bytes>>,
}

impl Client {
    /// To this address, from the runtime that the caller is in.
    #[must_use]
    pub fn to(address: SocketAddr) -> Self {
        Self { address, pool: Pool::builder(TokioExecutor::new()).build_http() }
    }

    async fn head(&self, call: Call) -> Result<Response<Incoming>, String> {
        let mut request =
            Request::builder().method(call.method).uri(format!("http://{}{}", self.address, call.path));
        for (name, value) in &call.headers {
            request = request.header(name, value);
        }
        let request = request.body(Full::new(call.body)).map_err(|error| error.to_string())?;
        self.pool.request(request).await.map_err(|error| format!("{error:?}"))
    }

    /// Sends and reads to the end. An error is one of the transport, in words.
    pub async fn send(&self, call: Call) -> Result<Reply, String> {
        let (limit, started) = (call.limit, now());
        let whole = async {
            let (head, body) = self.head(call).await?.into_parts();
            let body = body.collect().await.map_err(|error| error.to_string())?.to_bytes();
            Ok(Reply { status: head.status.as_u16(), headers: head.headers, body, took: started.elapsed() })
        };
        timeout(limit, whole).await.unwrap_or_else(|_| Err(format!("no end after {limit:?}")))
    }

    /// Sends and reads the head only.
    pub async fn open(&self, call: Call) -> Result<Open, String> {
        let limit = call.limit;
        let head = timeout(limit, self.head(call))
            .await
            .unwrap_or_else(|_| Err(format!("no head after {limit:?}")))?;
        let (head, body) = head.into_parts();
        Ok(Open { status: head.status.as_u16(), headers: head.headers, body })
    }
}
