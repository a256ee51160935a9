//! What a new configuration lets pass that the old one did not, for the log. Keys, server ids and policy ids alone are told.

use std::collections::BTreeSet;
use std::fmt::Display;

use policy::{EndBy, FourEyes, Rule, Rules, ToolLimits};
use sandbox::{FsPolicy, NetPolicy};
use screening::result::ResponseAction;
use screening::result::validate::Mode;
use vocabulary::{HostList, Trust};

use crate::config::{Config, InArguments, Isolation, Limits, Process, Reach, Server, ToolRule, UnknownFields};

/// More than this is only counted.
const MOST_TOLD: usize = 20;

/// Whatever may be looser in `new`. A rule that was rewritten counts: what it does now was not permitted by the old one.
pub(super) fn by(old: &Config, new: &Config) -> Vec<String> {
    let mut looser = Looser::default();
    looser.policies(&old.policy.rules, &new.policy.rules);
    looser.output(old, new);
    looser.limits(&old.limits, &new.limits);
    looser.identity(old, new);
    looser.if_more(
        "trust.require_signed",
        !old.anchors.require_signed,
        !new.anchors.require_signed,
    );
    let is_own_word = |config: &Config| config.approvals.four_eyes == FourEyes::NotNeeded;
    looser.if_more("approvals.four_eyes", is_own_word(old), is_own_word(new));
    looser.if_more("approvals.ttl", old.approvals.ttl, new.approvals.ttl);
    looser.if_more(
        "approvals.max_pending",
        old.approvals.max_pending,
        new.approvals.max_pending,
    );
    let by_one = |config: &Config| config.incident.end_by == EndBy::OnePerson;
    looser.if_more("incident.two_person_end", by_one(old), by_one(new));
    looser.if_longer("trust.keys", &old.anchors.keys, &new.anchors.keys);
    for (id, server) in &new.servers {
        match old.servers.get(id) {
            Some(before) => looser.server(&format!("servers.{id}"), before, server),
            None => looser.say(format!("servers.{id}")),
        }
    }
    looser.told()
}

#[derive(Default)]
struct Looser(Vec<String>);

impl Looser {
    fn say(&mut self, key: impl Into<String>) {
        self.0.push(key.into());
    }

    fn told(mut self) -> Vec<String> {
        let more = self.0.len().saturating_sub(MOST_TOLD);
        self.0.truncate(MOST_TOLD);
        self.0.extend((more > 0).then(|| format!("{more} more")));
        self.0
    }

    fn if_more<T: PartialOrd>(&mut self, key: impl Display, old: T, new: T) {
        if new > old {
            self.say(key.to_string());
        }
    }

    fn if_longer<'a, T: PartialEq + 'a>(&mut self, key: impl Display, old: &[T], new: impl IntoIterator<Item = &'a T>) {
        if new.into_iter().any(|item| !old.contains(item)) {
            self.say(key.to_string());
        }
    }

    fn policies(&mut self, old: &Rules, new: &Rules) {
        let (before, now) = (old.strengths(), new.strengths());
        let gone = before.iter().filter(|rule| rule.refuses && !rule.is_among(&now));
        let gone: BTreeSet<String> = gone
            .map(|rule| format!("forbid `{}` is gone or changed", rule.id))
            .collect();
        let come = now.iter().filter(|rule| !rule.refuses && !rule.is_among(&before));
        let come: BTreeSet<String> = come
            .map(|rule| format!("permit `{}` is new or changed", rule.id))
            .collect();
        self.0.extend(gone.into_iter().chain(come));
    }

    fn output(&mut self, old: &Config, new: &Config) {
        let (old, new) = (&old.output, &new.output);
        let mode = |mode: Mode| match mode {
            Mode::Strict => 0,
            Mode::Warn => 1,
            Mode::Off => 2,
        };
        self.if_more(
            "output_validation.mode",
            mode(old.validation.mode),
            mode(new.validation.mode),
        );
        self.if_more(
            "output_validation.max_bytes",
            old.validation.max_bytes,
            new.validation.max_bytes,
        );
        let action = |action: &ResponseAction| match action {
            ResponseAction::Block(_) => 0,
            ResponseAction::Redact(_) => 1,
            ResponseAction::Spotlight => 2,
        };
        self.if_more(
            "output_sanitisation.response_action",
            action(&old.sanitisation.action),
            action(&new.sanitisation.action),
        );
        if old.sanitisation.strip != new.sanitisation.strip {
            self.say("output_sanitisation.strip");
        }
        if old.sanitisation.spotlight != new.sanitisation.spotlight {
            self.say("output_sanitisation.spotlight");
        }
        let arguments = |arguments: &InArguments| match arguments {
            InArguments::Block(_) => 0,
            InArguments::Warn(_) => 1,
            InArguments::Off => 2,
        };
        self.if_more(
            "detection.arguments",
            arguments(&old.arguments),
            arguments(&new.arguments),
        );
    }

    fn limits(&mut self, old: &Limits, new: &Limits) {
        let sizes = |limits: &Limits| {
            let (request, arguments, result) = (limits.request, limits.arguments, limits.result);
            [
                ("limits.request.max_bytes", request.max_bytes),
                ("limits.request.max_depth", request.max_depth),
                ("limits.arguments.max_bytes", arguments.max_bytes),
                ("limits.arguments.max_depth", arguments.max_depth),
                ("limits.arguments.max_string", arguments.max_string),
                ("limits.arguments.max_items", arguments.max_items),
                ("limits.result.max_bytes", result.max_bytes),
                ("limits.result.max_depth", result.max_depth),
                ("limits.concurrency.per_principal", limits.concurrency.per_principal),
                ("limits.concurrency.per_server", limits.concurrency.per_server),
            ]
        };
        for ((key, old), (_, new)) in sizes(old).into_iter().zip(sizes(new)) {
            self.if_more(key, old, new);
        }
        self.rules("limits.rate", &old.rate, &new.rate);
        self.rules("limits.quota", &old.quota, &new.quota);
        self.if_more("limits.timeout", old.timeout, new.timeout);
    }

    /// Rules that are gone or allow something else now.
    fn rules(&mut self, key: impl Display, old: &[Rule], new: &[Rule]) {
        self.if_longer(key, new, old);
    }

    fn identity(&mut self, old: &Config, new: &Config) {
        self.if_longer("identity.jwt", &old.identity.jwt, &new.identity.jwt);
        self.if_more(
            "identity.tokens.enabled",
            old.identity.tokens_enabled,
            new.identity.tokens_enabled,
        );
        self.if_more(
            "identity.mtls.enabled",
            old.identity.mtls_enabled,
            new.identity.mtls_enabled,
        );
        let (old, new) = (&old.listen, &new.listen);
        self.if_longer("listen.allowed_hosts", &old.allowed_hosts, &new.allowed_hosts);
        self.if_longer("listen.allowed_origins", &old.allowed_origins, &new.allowed_origins);
    }

    fn server(&mut self, key: &str, old: &Server, new: &Server) {
        let trust = |trust: Trust| match trust {
            Trust::Unknown => 0,
            Trust::Community => 1,
            Trust::Verified => 2,
            Trust::Internal => 3,
        };
        self.if_more(format!("{key}.trust"), trust(old.trust), trust(new.trust));
        if old.isolation != new.isolation && new.isolation == Isolation::Shared {
            self.say(format!("{key}.isolation"));
        }
        self.if_longer(
            format!("{key}.extension_methods"),
            &old.extension_methods,
            &new.extension_methods,
        );
        for (name, rule) in &new.tools {
            let before = old.tools.get(name);
            let was_open = before.is_some_and(|before| before.unknown_fields == UnknownFields::Allow);
            if rule.unknown_fields == UnknownFields::Allow && !was_open {
                self.say(format!("{key}.tools.{name}.unknown_fields"));
            }
            if rule.risk.is_some() && before.and_then(|before| before.risk) > rule.risk {
                self.say(format!("{key}.tools.{name}.risk"));
            }
            if !rule.detect_paths && before.is_none_or(|before| before.detect_paths) {
                self.say(format!("{key}.tools.{name}.detect_paths"));
            }
        }
        for (name, before) in &old.tools {
            self.fields(&format!("{key}.tools.{name}"), before, new.tools.get(name));
        }
        match (&old.reach, &new.reach) {
            (Reach::Process(old), Reach::Process(new)) => self.process(&format!("{key}.sandbox"), old, new),
            (Reach::Web(old), Reach::Web(new)) if old == new => {}
            (Reach::Web(_) | Reach::Process(_), _) => self.say(key),
        }
    }

    /// Paths and URLs that are not looked at any more, and hosts that may be named now.
    fn fields(&mut self, key: &str, old: &ToolRule, new: Option<&ToolRule>) {
        let (paths, urls) = new.map_or((&[][..], &[][..]), |new| (&new.paths, &new.urls));
        self.if_longer(format!("{key}.paths"), paths, &old.paths);
        self.if_longer(format!("{key}.urls"), urls, &old.urls);
        self.tool_limits(&format!("{key}.limits"), &old.limits, new.map(|new| &new.limits));
        let hosts = |rule: &ToolRule| rule.hosts.iter().flat_map(HostList::iter).cloned().collect::<Vec<_>>();
        match new {
            Some(new) if new.hosts.is_some() && old.hosts.is_some() => {
                self.if_longer(format!("{key}.hosts"), &hosts(old), &hosts(new));
            }
            Some(new) if new.hosts.is_some() == old.hosts.is_some() => {}
            None if old.hosts.is_none() => {}
            Some(_) | None => self.say(format!("{key}.hosts")),
        }
    }

    fn tool_limits(&mut self, key: &str, old: &ToolLimits, new: Option<&ToolLimits>) {
        let nothing = ToolLimits::default();
        let new = new.unwrap_or(&nothing);
        self.rules(format!("{key}.rate"), &old.rate, &new.rate);
        self.rules(format!("{key}.quota"), &old.quota, &new.quota);
        let unbounded = |number: Option<usize>| number.unwrap_or(usize::MAX);
        self.if_more(
            format!("{key}.concurrency"),
            unbounded(old.concurrency),
            unbounded(new.concurrency),
        );
        if old.timeout != new.timeout && (new.timeout.is_none() || new.timeout > old.timeout) {
            self.say(format!("{key}.timeout"));
        }
    }

    fn process(&mut self, key: &str, old: &Process, new: &Process) {
        if old.fs != new.fs && new.fs == FsPolicy::Unconfined {
            self.say(format!("{key}.fs"));
        }
        if old.net != new.net && new.net != NetPolicy::BlockAll {
            self.say(format!("{key}.net"));
        }
        if old.command != new.command {
            self.say(format!("{key}.command"));
        }
        self.if_longer(format!("{key}.read"), &old.read, &new.read);
        self.if_longer(format!("{key}.allow"), &old.allow, &new.allow);
        self.if_longer(format!("{key}.private"), &old.private, &new.private);
        if old.workspace != new.workspace {
            self.say(format!("{key}.workspace"));
        }
    }
}
