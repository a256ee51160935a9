//! `servers.*.credential`: what a server is shown. Secrets are references; a complaint never repeats what may be one.

use http::{HeaderName, HeaderValue, Uri};
use rustls::sign::CertifiedKey;
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use settings::{Complaint, Entry, Reference, Section, not_yet, quoted};
use vocabulary::Secret;

use super::listen::certificates;
use super::raw::Surroundings;
use super::servers::web_url;

/// What a server is shown.
#[derive(Clone, Debug)]
pub enum Credential {
    /// Nothing.
    None,
    /// A secret that a reference named.
    Reference {
        /// The header that carries it.
        header: HeaderName,
        /// The header's whole value (scheme and secret), fit to be sent.
        value: Secret,
    },
    /// A token that an authorisation server grants.
    Granted(Box<Granted>),
    /// A certificate that the connection shows.
    Certificate {
        /// It, and those that lead to its root.
        chain: Vec<CertificateDer<'static>>,
        /// Its key, in PEM.
        key: Secret,
    },
}

/// How a server's tokens are granted.
#[derive(Clone, Debug)]
pub struct Granted {
    /// For what.
    pub way: GrantWay,
    /// Where.
    pub token_url: String,
    /// Our name there.
    pub client_id: String,
    /// What proves it.
    pub client_secret: Secret,
    /// Whom the tokens are for, by name.
    pub audience: Option<String>,
    /// Whom the tokens are for, by address.
    pub resource: Option<String>,
    /// What they may be good for at most.
    pub scopes: Vec<String>,
    /// Further trust roots for the token endpoint.
    pub ca: Vec<CertificateDer<'static>>,
}

/// What a token is granted for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum GrantWay {
    /// What the caller showed (RFC 8693).
    Exchange,
    /// The gateway's own word.
    ClientCredentials,
}

impl PartialEq for Credential {
    /// Tells whether a reload changed anything; both sides are the operator's own.
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::None, Self::None) => true,
            (
                Self::Reference { header, value },
                Self::Reference {
                    header: other_header,
                    value: other_value,
                },
            ) => header == other_header && value.expose() == other_value.expose(),
            (Self::Granted(one), Self::Granted(other)) => one.parts() == other.parts(),
            (
                Self::Certificate { chain, key },
                Self::Certificate {
                    chain: other_chain,
                    key: other_key,
                },
            ) => chain == other_chain && key.expose() == other_key.expose(),
            (Self::None | Self::Reference { .. } | Self::Granted(_) | Self::Certificate { .. }, _) => false,
        }
    }
}

impl Eq for Credential {}

/// Ways that a credential can come about; one of them stands in a configuration.
const WAYS: [&str; 4] = ["secret", "exchange", "client_credentials", "mtls"];
/// Those of later versions.
const LATER: [&str; 2] = ["vault", "oauth"];

impl Credential {
    /// `url` is the server's address, where it has one.
    pub(super) fn check(entry: Entry<'_>, url: Option<&Uri>, around: &Surroundings) -> Option<Self> {
        if !entry.is_table() {
            return entry.accept(match entry.text() {
                Ok("none") => Ok(Self::None),
                // What stands here may be the secret itself, so it is not repeated.
                Ok(_) => Err(literal()),
                Err(complaint) => Err(complaint),
            });
        }
        let mut section = entry.into_section()?;
        let given = WAYS.iter().filter(|way| section.has(way)).count();
        if given > 1 {
            let message = format!("names more than one of {}", WAYS.map(quoted).join(", "));
            section.fault_here(Complaint::new(message).hint("a server has one credential"));
            return None;
        }
        let granted = [
            ("exchange", GrantWay::Exchange),
            ("client_credentials", GrantWay::ClientCredentials),
        ];
        for (name, way) in granted {
            if section.has(name) {
                let granted = section
                    .entry(name)
                    .and_then(Entry::into_section)
                    .and_then(|inner| Granted::check(inner, way, url, around));
                section.finish();
                return Some(Self::Granted(Box::new(granted?)));
            }
        }
        if section.has("mtls") {
            let inner = section.entry("mtls").and_then(Entry::into_section);
            let shown = inner.and_then(|inner| Self::certificate(inner, url, around));
            section.finish();
            return shown;
        }
        Self::reference(section, around)
    }

    fn certificate(mut section: Section<'_>, url: Option<&Uri>, around: &Surroundings) -> Option<Self> {
        let chain = section.require("cert", |value| certificates(value, around));
        let key = section.require("key", |value| {
            let key = followed(value, around)?;
            let read = PrivateKeyDer::from_pem_slice(key.expose().as_bytes())
                .map_err(|_| Complaint::new("names no private key in PEM"))?;
            if let Some(chain) = &chain {
                let provider = rustls::crypto::aws_lc_rs::default_provider();
                CertifiedKey::from_der(chain.clone(), read, &provider)
                    .map_err(|_| Complaint::new("does not fit the certificate in `cert`"))?;
            }
            Ok(key)
        });
        if url.is_some_and(|url| url.scheme_str() != Some("https")) {
            section.fault_here(Complaint::new(
                "needs an `https://` address: nothing else shows a certificate",
            ));
            return None;
        }
        section.finish();
        Some(Self::Certificate {
            chain: chain?,
            key: key?,
        })
    }

    fn reference(mut section: Section<'_>, around: &Surroundings) -> Option<Self> {
        let later = LATER.iter().any(|kind| section.has(kind));
        let secret = match later && !section.has("secret") {
            true => None,
            false => section.require("secret", |value| secret(value, around)),
        };
        let header = section.read("header", |value| header(value.text()?));
        let given_scheme = section.has("scheme");
        let scheme = section.read("scheme", |value| scheme(value.text()?));
        let scheme = match (given_scheme, &header) {
            (true, _) => scheme,
            (false, Some(header)) if *header == http::header::AUTHORIZATION => Some("Bearer ".to_owned()),
            (false, _) => Some(String::new()),
        };
        section.finish();
        let value = Secret::new(format!("{}{}", scheme?, secret?.expose()));
        Some(Self::Reference { header: header?, value })
    }
}

impl Granted {
    fn check(mut section: Section<'_>, way: GrantWay, url: Option<&Uri>, around: &Surroundings) -> Option<Self> {
        let token_url = section.require("token_url", |value| {
            let text = value.text()?;
            web_url(text).map(|_| text.to_owned())
        });
        let client_id = section.require("client_id", non_empty);
        let client_secret = section.require("client_secret", |value| secret(value, around));
        let audience = optional(&mut section, "audience", non_empty);
        let resource = match way {
            GrantWay::Exchange => optional(&mut section, "resource", resource),
            GrantWay::ClientCredentials => Some(None),
        };
        let scopes = section.read("scopes", |value| value.distinct(scope));
        let ca = section.read("ca", |value| certificates(value, around));
        section.finish();
        let (audience, resource) = (audience?, resource?);
        // A token that is exchanged is for this server, by one name or another.
        let by_address = || {
            url.filter(|_| way == GrantWay::Exchange && audience.is_none())
                .map(Uri::to_string)
        };
        Some(Self {
            way,
            token_url: token_url?,
            client_id: client_id?,
            client_secret: client_secret?,
            resource: resource.or_else(by_address),
            audience,
            scopes: scopes?,
            ca: ca.unwrap_or_default(),
        })
    }

    /// All of it, to be compared.
    fn parts(&self) -> impl PartialEq + use<'_> {
        (
            (self.way, &self.token_url, &self.client_id, self.client_secret.expose()),
            (&self.audience, &self.resource, &self.scopes, &self.ca),
        )
    }
}

/// A key that may be left out; `None` where it stands there and is faulty.
fn optional<'a, T>(
    section: &mut Section<'a>,
    name: &str,
    read: impl FnOnce(&Entry<'a>) -> Result<T, Complaint>,
) -> Option<Option<T>> {
    match section.has(name) {
        true => section.read(name, read).map(Some),
        false => Some(None),
    }
}

fn non_empty(value: &Entry<'_>) -> Result<String, Complaint> {
    match value.text()? {
        "" => Err(Complaint::new("is empty")),
        text => Ok(text.to_owned()),
    }
}

/// RFC 8707: absolute, and without a fragment.
fn resource(value: &Entry<'_>) -> Result<String, Complaint> {
    let text = value.text()?;
    let wrong = || Complaint::new("is not an absolute URI without a fragment").hint("write the server's address");
    let uri: Uri = text.parse().map_err(|_| wrong())?;
    match uri.scheme().is_some() && !text.contains('#') {
        true => Ok(text.to_owned()),
        false => Err(wrong()),
    }
}

/// RFC 6749 §3.3.
fn scope(value: &Entry<'_>) -> Result<String, Complaint> {
    let text = value.text()?;
    let is_plain = |byte: u8| byte.is_ascii_graphic() && !matches!(byte, b'"' | b'\\');
    match !text.is_empty() && text.bytes().all(is_plain) {
        true => Ok(text.to_owned()),
        false => Err(Complaint::new("is not a single scope").hint("write one word for each")),
    }
}

fn literal() -> Complaint {
    Complaint::new("a secret is a reference, never the secret itself")
        .hint("write { secret = \"env:NAME\" } or { secret = \"file:PATH\" }")
}

/// Follows a reference to a secret; what it names must be fit for a header.
pub(super) fn secret(value: &Entry<'_>, around: &Surroundings) -> Result<Secret, Complaint> {
    let secret = followed(value, around)?;
    match HeaderValue::from_str(secret.expose()) {
        Ok(_) => Ok(secret),
        Err(_) => Err(Complaint::new(
            "the secret it names holds a line break or another control character",
        )),
    }
}

/// Follows a reference to a secret, whatever it is.
fn followed(value: &Entry<'_>, around: &Surroundings) -> Result<Secret, Complaint> {
    let text = value.text()?;
    let secret = match Reference::parse(text) {
        Some(Reference::Variable(name)) => {
            let unset = || Complaint::new(format!("environment variable {} is not set", quoted(name)));
            Secret::new(around.variable(name).ok_or_else(unset)?)
        }
        Some(Reference::File(path)) => {
            let path = around.resolve(path);
            if Surroundings::is_open_to_all(&path) {
                value.warn(Complaint::new("everybody on this machine can read the file").hint("chmod o-rwx"));
            }
            Secret::new(around.text(&path)?.trim_end_matches(['\n', '\r']).to_owned())
        }
        None if text.starts_with("vault:") => {
            return Err(not_yet("Vault").hint("write `env:NAME` or `file:PATH`"));
        }
        Some(Reference::Plain(_)) | None => return Err(literal()),
    };
    match secret.expose().is_empty() {
        true => Err(Complaint::new("the secret it names is empty")),
        false => Ok(secret),
    }
}

/// A header that carries a credential, not one that carries the message.
fn header(text: &str) -> Result<HeaderName, Complaint> {
    let name: HeaderName = text
        .parse()
        .map_err(|_| Complaint::new("is not the name of a header"))?;
    let taken = PROTOCOL_HEADERS.contains(&name.as_str())
        || name.as_str().starts_with("mcp-")
        || name.as_str().starts_with("content-");
    match taken {
        true => Err(Complaint::new(format!("{} is a header of the protocol", quoted(text)))),
        false => Ok(name),
    }
}

fn scheme(text: &str) -> Result<String, Complaint> {
    let fits = text
        .bytes()
        .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.'));
    match (fits, text) {
        (true, "") => Ok(String::new()),
        (true, word) => Ok(format!("{word} ")),
        (false, _) => Err(Complaint::new("is not a single word").hint("such as `Bearer`, or empty")),
    }
}

/// Headers the gateway itself writes, or that frame the message.
const PROTOCOL_HEADERS: [&str; 15] = [
    "accept",
    "accept-encoding",
    "connection",
    "expect",
    "host",
    "keep-alive",
    "last-event-id",
    "origin",
    "te",
    "traceparent",
    "tracestate",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "user-agent",
];
