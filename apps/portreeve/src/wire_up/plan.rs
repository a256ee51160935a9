//! Translates configuration into what the rooms take. Pure: nothing is opened here.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::path::Path;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use gateway::ServerFields;
use gateway::edge::authenticate::{CertificateUse, Identity};
use gateway::edge::host::AllowedHosts;
use gateway::edge::jwks::{KeyRing, KeySource};
use gateway::edge::jwt::{ClaimNames, Issuer, algorithm};
use gateway::edge::metadata::{PublicUrl, is_loopback};
use gateway::edge::tls::{TlsSource, certificate_names};
use gateway::edge::token_clients::TokenClients;
use gateway::edge::tokens::TokenTable;
use policy::{LimitRules, ServerFacts, ToolLimits};
use rustls_pki_types::PrivateKeyDer;
use rustls_pki_types::pem::PemObject as _;
use sandbox::{Launcher, NetPolicy};
use screening::arguments::{FieldRules, Hosts};
use screening::result::{Guards, Truncation};
use upstream::{
    Address, Caps, ClientIdentity, CredentialEpoch, CredentialSource, Grant, GrantSettings, Reach, Reference,
    ServerSettings, TokenEndpoint,
};
use vocabulary::{Clock, HostList, HostPattern, ServerId, ToolId, ToolName, json};

use super::processes::{Harbour, tier_of};
use crate::config::{self, Audience, Config, Credential, Tls, UnknownFields};

/// A list waits this long for the first discovery, or for the call timeout if that is less.
const FIRST_DISCOVERY: Duration = Duration::from_secs(10);

pub(super) fn tls_source(config: &Config, dir: &Path) -> Option<TlsSource> {
    let listen = &config.listen;
    match &listen.tls {
        Tls::Off => None,
        Tls::Files { chain, key } => Some(TlsSource::Given {
            chain: chain.clone(),
            key: key.clone(),
        }),
        Tls::Auto => {
            let bound: Vec<IpAddr> = vec![listen.mcp.ip(), listen.admin.ip()];
            let public = listen.public_url.as_deref().and_then(host_of_url);
            let hosts: Vec<String> = listen.allowed_hosts.iter().cloned().chain(public).collect();
            Some(TlsSource::Auto {
                dir: dir.to_owned(),
                names: certificate_names(&hosts, &bound),
            })
        }
    }
}

fn host_of_url(url: &str) -> Option<String> {
    let host = http::Uri::from_str(url).ok()?.host()?.to_owned();
    Some(host.trim_start_matches('[').trim_end_matches(']').to_owned())
}

/// Hosts we answer to: the configured ones, and that of the public URL.
pub(super) fn allowed_hosts(config: &Config) -> AllowedHosts {
    let mut hosts = config.listen.allowed_hosts.clone();
    hosts.extend(config.listen.public_url.as_deref().and_then(host_of_url));
    AllowedHosts {
        hosts,
        origins: config.listen.allowed_origins.clone(),
    }
}

/// The ways of proving who one is; the keys of issuers that stay are kept.
pub(super) fn identity(
    config: &Config,
    public_url: &str,
    tokens: &Arc<TokenTable>,
    clock: &Clock,
    before: Option<&Identity>,
) -> anyhow::Result<Identity> {
    let client = reqwest::Client::builder()
        .redirect(reqwest::redirect::Policy::none())
        .no_proxy()
        .timeout(Duration::from_secs(5))
        .build()?;
    let issuers = config
        .identity
        .jwt
        .iter()
        .map(|jwt| issuer(jwt, (&config.listen, public_url), &client, before))
        .collect();
    let tokens = config.identity.tokens_enabled.then(|| tokens.clone());
    let certificates = if config.identity.mtls_enabled {
        CertificateUse::Identifies
    } else {
        CertificateUse::Ignored
    };
    Ok(Identity::new(issuers, tokens, certificates, clock.clone()))
}

/// How clients reach the gateway: `url` is what the operator says, else the bound address.
pub(super) fn public_url(config: &Config, url: &str) -> PublicUrl {
    match is_on_loopback(&config.listen) {
        true => PublicUrl::on_loopback(url.to_owned()),
        false => PublicUrl::fixed(url.to_owned()),
    }
}

/// Whether its names are those of loopback, for want of another word of the operator's.
fn is_on_loopback(listen: &config::Listen) -> bool {
    listen.public_url.is_none() && listen.mcp.ip().is_loopback()
}

/// What tokens must be meant for where the operator does not say: the gateway, by each of its names on loopback.
fn resources(listen: &config::Listen, public_url: &str) -> Vec<String> {
    let mut resources = vec![format!("{public_url}/mcp")];
    let (scheme, port) = match (public_url.split_once("://"), public_url.rsplit_once(':')) {
        (Some((scheme, _)), Some((_, port))) if is_on_loopback(listen) => (scheme, port),
        _ => return resources,
    };
    let hosts = listen.allowed_hosts.iter().filter(|host| is_loopback(host));
    let named = hosts.map(|host| match host.contains(':') {
        true => format!("{scheme}://[{host}]:{port}/mcp"),
        false => format!("{scheme}://{host}:{port}/mcp"),
    });
    resources.extend(named);
    resources.dedup();
    resources
}

fn issuer(
    jwt: &config::JwtIssuer,
    (listen, public_url): (&config::Listen, &str),
    client: &reqwest::Client,
    before: Option<&Identity>,
) -> Issuer {
    let source = match &jwt.keys {
        config::KeySource::Url(url) => KeySource::Url(url.clone()),
        config::KeySource::File { text, .. } => KeySource::Text(text.clone()),
    };
    let known = before
        .into_iter()
        .flat_map(Identity::issuers)
        .map(|issuer| &issuer.keys);
    let kept = known.into_iter().find(|ring| *ring.source() == source).cloned();
    let algorithms = jwt.algorithms.iter().filter_map(|name| algorithm(name.as_str()));
    Issuer {
        issuer: jwt.issuer.clone(),
        audiences: match &jwt.audience {
            Audience::PublicUrl => resources(listen, public_url),
            Audience::OneOf(audiences) => audiences.clone(),
        },
        algorithms: algorithms.collect(),
        claims: ClaimNames {
            org: jwt.claims.org.clone(),
            groups: jwt.claims.groups.clone(),
            client: jwt.claims.client.clone(),
            further: jwt.claims.further.clone(),
        },
        keys: kept.unwrap_or_else(|| Arc::new(KeyRing::new(source, client.clone()))),
    }
}

/// What all grants have in common.
#[derive(Clone)]
pub(super) struct Grants {
    /// What voids everything that was granted.
    pub(super) epoch: CredentialEpoch,
    pub(super) clients: Arc<TokenClients>,
    pub(super) clock: Clock,
}

impl Grants {
    pub(super) fn new(clock: &Clock) -> Self {
        Self {
            epoch: CredentialEpoch::default(),
            clients: Arc::default(),
            clock: clock.clone(),
        }
    }

    fn of(&self, granted: &config::Granted) -> Grant {
        let settings = GrantSettings {
            endpoint: TokenEndpoint {
                url: granted.token_url.clone(),
                client_id: granted.client_id.clone(),
                client_secret: granted.client_secret.clone(),
                extra_roots: granted.ca.clone(),
            },
            audience: granted.audience.clone(),
            resource: granted.resource.clone(),
            scopes: granted.scopes.clone(),
            epoch: self.epoch.clone(),
            clock: self.clock.clone(),
        };
        match granted.way {
            config::GrantWay::Exchange => Grant::exchange(settings),
            config::GrantWay::ClientCredentials => Grant::client_credentials(settings, self.clients.clone()),
        }
    }
}

pub(super) fn server_settings(
    id: &ServerId,
    server: &config::Server,
    limits: &config::Limits,
    (harbour, grants): (Option<&Harbour>, &Grants),
) -> anyhow::Result<ServerSettings> {
    let credential = match &server.credential {
        Credential::None => CredentialSource::None,
        Credential::Reference { header, value } => {
            Reference::new(header.clone(), value).map_or(CredentialSource::None, CredentialSource::Reference)
        }
        Credential::Granted(granted) => CredentialSource::Grant(Arc::new(grants.of(granted))),
        Credential::Certificate { .. } => CredentialSource::Certificate,
    };
    let reach = match (&server.barred, &server.reach) {
        (Some(why), _) => Reach::Barred(why.clone()),
        (None, config::Reach::Web(web)) => {
            let address = Address {
                url: web.url.clone(),
                extra_roots: web.ca.clone(),
                certificate_name: web.certificate_name.clone(),
                identity: identity_shown(&server.credential)?,
            };
            match web.transport {
                config::Transport::Http => Reach::Http(address),
                config::Transport::Sse => Reach::Sse(address),
            }
        }
        (None, config::Reach::Process(process)) => {
            let harbour = harbour.context("no launcher was made for this server")?;
            Reach::Process(harbour.berth(id, process)?)
        }
    };
    Ok(ServerSettings {
        id: id.clone(),
        reach,
        credential,
        caps: Caps {
            timeout: limits.timeout,
            max_bytes: limits.result.max_bytes,
            max_depth: limits.result.max_depth,
        },
        isolation: match server.isolation {
            config::Isolation::PerPrincipal => upstream::Isolation::PerPrincipal,
            config::Isolation::Shared => upstream::Isolation::Shared,
        },
        era: match server.era {
            config::Era::Auto => upstream::EraSetting::Auto,
            config::Era::Legacy => upstream::EraSetting::Legacy,
            config::Era::Modern => upstream::EraSetting::Modern,
        },
    })
}

/// The certificate that a connection shows, where one is the server's credential.
fn identity_shown(credential: &Credential) -> anyhow::Result<Option<Arc<ClientIdentity>>> {
    Ok(match credential {
        Credential::Certificate { chain, key } => Some(Arc::new(ClientIdentity {
            chain: chain.clone(),
            key: PrivateKeyDer::from_pem_slice(key.expose().as_bytes()).context("the key cannot be read")?,
        })),
        Credential::None | Credential::Reference { .. } | Credential::Granted(_) => None,
    })
}

/// Methods beyond MCP, by the server they are let through to.
pub(super) fn extension_methods(config: &Config) -> BTreeMap<ServerId, Vec<String>> {
    let of_server = |(id, server): (&ServerId, &config::Server)| (id.clone(), server.extension_methods.clone());
    config.servers.iter().map(of_server).collect()
}

pub(crate) fn facts(servers: &BTreeMap<ServerId, config::Server>, launcher: Option<&Launcher>) -> Vec<ServerFacts> {
    let of_server = |(id, server): (&ServerId, &config::Server)| ServerFacts {
        id: id.clone(),
        trust: server.trust,
        identity: server.identity.clone(),
        tier: tier_of(&server.reach, launcher),
        tools: server
            .tools
            .iter()
            .map(|(name, rule)| (name.to_string(), rule.risk))
            .collect(),
    };
    servers.iter().map(of_server).collect()
}

/// Tools whose undeclared fields the operator lets through.
pub(super) fn open_tools(config: &Config) -> BTreeSet<(ServerId, String)> {
    let mut open = BTreeSet::new();
    for (id, server) in &config.servers {
        let lenient = server
            .tools
            .iter()
            .filter(|(_, rule)| rule.unknown_fields == UnknownFields::Allow);
        open.extend(lenient.map(|(name, _)| (id.clone(), name.to_string())));
    }
    open
}

/// Which arguments of each server's tools hold paths and URLs, and what those are held against.
pub(super) fn fields(config: &Config) -> BTreeMap<ServerId, ServerFields> {
    let of_server = |(id, server): (&ServerId, &config::Server)| {
        let usual = usual_fields(&server.reach);
        let of_tool = |(name, rule): (&ToolName, &config::ToolRule)| {
            let fields = FieldRules {
                paths: rule.paths.clone(),
                detect_paths: usual.detect_paths && rule.detect_paths,
                urls: rule.urls.clone(),
                hosts: rule.hosts.clone().map_or_else(|| usual.hosts.clone(), Hosts::Only),
            };
            (name.to_string(), Arc::new(fields))
        };
        let tools = server.tools.iter().map(of_tool).collect();
        let usual = Arc::new(usual.clone());
        (id.clone(), ServerFields { usual, tools })
    };
    config.servers.iter().map(of_server).collect()
}

/// What holds for tools of which the operator says nothing.
fn usual_fields(reach: &config::Reach) -> FieldRules {
    let config::Reach::Process(process) = reach else {
        return FieldRules::nothing();
    };
    let allowed = process.allow.iter().filter_map(|text| HostPattern::parse(text).ok());
    FieldRules {
        detect_paths: process.has_workspace(),
        hosts: match process.net {
            NetPolicy::Allowlist => Hosts::Only(HostList::new(allowed.collect())),
            NetPolicy::BlockAll => Hosts::Nothing,
            NetPolicy::Unconfined => Hosts::Unsaid,
        },
        ..FieldRules::nothing()
    }
}

pub(super) fn limits(config: &Config) -> gateway::Limits {
    let limits = &config.limits;
    gateway::Limits {
        request_bytes: limits.request.max_bytes,
        request_depth: limits.request.max_depth,
        arguments: json::Limits {
            max_bytes: limits.arguments.max_bytes,
            max_depth: limits.arguments.max_depth,
            max_string: limits.arguments.max_string,
            max_items: limits.arguments.max_items,
        },
        cache_ttl: config.output.response.cache_ttl,
        first_discovery: FIRST_DISCOVERY.min(limits.timeout),
    }
}

/// What happens to what servers send.
pub(super) fn screening(config: &Config) -> screening::result::Rules {
    let limits = &config.limits.result;
    screening::result::Rules {
        guards: Guards {
            max_bytes: limits.max_bytes,
            max_depth: limits.max_depth,
        },
        validation: config.output.validation,
        sanitisation: config.output.sanitisation.clone(),
        truncation: config.output.response.limit_bytes.map(|limit_bytes| Truncation {
            limit_bytes,
            mint: gateway::cache_key,
        }),
    }
}

/// What happens to secrets in what is sent to servers.
pub(super) fn argument_secrets(config: &Config) -> gateway::ArgumentSecrets {
    match &config.output.arguments {
        config::InArguments::Off => gateway::ArgumentSecrets::Pass,
        config::InArguments::Warn(detector) => gateway::ArgumentSecrets::Warn(detector.clone()),
        config::InArguments::Block(detector) => gateway::ArgumentSecrets::Block(detector.clone()),
    }
}

/// What may be called how often and at once, of all tools and of single ones.
pub(crate) fn limit_rules(limits: &config::Limits, servers: &BTreeMap<ServerId, config::Server>) -> LimitRules {
    let mut tools = BTreeMap::new();
    for (server, settings) in servers {
        let limited = settings
            .tools
            .iter()
            .filter(|(_, rule)| rule.limits != ToolLimits::default());
        tools.extend(limited.map(|(name, rule)| {
            let id = ToolId {
                server: server.clone(),
                name: name.clone(),
            };
            (id, rule.limits.clone())
        }));
    }
    LimitRules {
        rate: limits.rate.clone(),
        quota: limits.quota.clone(),
        per_principal: limits.concurrency.per_principal,
        per_server: limits.concurrency.per_server,
        tools,
    }
}

/// How long records are kept.
pub(crate) fn retention(audit: &config::Audit) -> ledger::Retention {
    let days = |days: u64| Duration::from_secs(days.saturating_mul(86_400));
    ledger::Retention {
        keep: days(audit.retention.days),
        floor: days(audit.retention.min_days),
        max_bytes: audit.retention.max_bytes,
    }
}

pub(crate) fn ledger_settings(audit: &config::Audit, clock: &Clock) -> ledger::Settings {
    ledger::Settings {
        durability: match audit.durability {
            config::Durability::Always => ledger::Durability::Always,
            config::Durability::Writes => ledger::Durability::Writes,
            config::Durability::Interval => ledger::Durability::Interval,
        },
        commit_interval: audit.commit_interval,
        clock: clock.clone(),
        payloads: ledger::KeptPayloads {
            arguments: audit.record_arguments,
            results: audit.record_results,
        },
        witness: audit.witness.clone(),
        ..ledger::Settings::new(&audit.origin)
    }
}
