//! The methods clients use, and a safe spelling of those we do not know.

use crate::server_method::{ServerMethod, ServerNotice};

/// Declares an enum of methods that also keeps those it does not know.
macro_rules! methods {
    ($(#[$attribute:meta])* $kind:ident { $($variant:ident = $name:literal,)+ }) => {
        $(#[$attribute])*
        #[derive(Clone, PartialEq, Eq, Debug)]
        pub enum $kind {
            $(
                #[doc = concat!("`", $name, "`")]
                $variant,
            )+
            /// Anything else, cut to 128 bytes, control characters removed.
            Other(String),
        }

        impl $kind {
            /// Every one that we know by name.
            pub const KNOWN: &'static [Self] = &[$(Self::$variant,)+];

            /// Recognises a method.
            #[must_use]
            pub fn parse(name: &str) -> Self {
                match name {
                    $($name => Self::$variant,)+
                    other => Self::Other(recordable(other)),
                }
            }

            /// The name for records.
            #[must_use]
            pub fn as_str(&self) -> &str {
                match self {
                    $(Self::$variant => $name,)+
                    Self::Other(name) => name,
                }
            }
        }
    };
}

methods! {
    /// What a client asks for, recognised or not.
    Method {
        Initialize = "initialize",
        Discover = "server/discover",
        Ping = "ping",
        ToolsList = "tools/list",
        ToolsCall = "tools/call",
        ResourcesList = "resources/list",
        TemplatesList = "resources/templates/list",
        ResourcesRead = "resources/read",
        Subscribe = "resources/subscribe",
        Unsubscribe = "resources/unsubscribe",
        PromptsList = "prompts/list",
        PromptsGet = "prompts/get",
        Complete = "completion/complete",
        SetLevel = "logging/setLevel",
        Listen = "subscriptions/listen",
        TasksGet = "tasks/get",
        TasksUpdate = "tasks/update",
        TasksCancel = "tasks/cancel",
        TasksResult = "tasks/result",
        TasksList = "tasks/list",
    }
}

methods! {
    /// What a client tells, recognised or not.
    ClientNotice {
        Cancelled = "notifications/cancelled",
        Initialized = "notifications/initialized",
        Progress = "notifications/progress",
        RootsChanged = "notifications/roots/list_changed",
    }
}

/// Who answers a request, and how.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Handling {
    /// It opens a conversation: the gateway introduces itself.
    Introduction,
    /// The gateway answers alone, from what it knows.
    Local,
    /// One list, put together from those of the servers.
    List,
    /// It is carried to one server, after its params were checked.
    Forwarded,
    /// A stream of changes stays open.
    Stream,
    /// MCP does not know it: forwarded if an operator named it, refused otherwise.
    Extension,
}

impl Method {
    /// Who answers it, and how. A method more does not compile before it says so here.
    #[must_use]
    pub fn handling(&self) -> Handling {
        match self {
            Self::Initialize | Self::Discover => Handling::Introduction,
            Self::Ping | Self::SetLevel => Handling::Local,
            Self::ToolsList | Self::PromptsList | Self::ResourcesList | Self::TemplatesList | Self::TasksList => {
                Handling::List
            }
            Self::ToolsCall
            | Self::ResourcesRead
            | Self::Subscribe
            | Self::Unsubscribe
            | Self::PromptsGet
            | Self::Complete
            | Self::TasksGet
            | Self::TasksUpdate
            | Self::TasksCancel
            | Self::TasksResult => Handling::Forwarded,
            Self::Listen => Handling::Stream,
            Self::Other(_) => Handling::Extension,
        }
    }

    /// Whether it asks for a list.
    #[must_use]
    pub fn is_list(&self) -> bool {
        self.handling() == Handling::List
    }

    /// Whether it is carried to a server, after its params were checked.
    #[must_use]
    pub fn is_carried(&self) -> bool {
        self.handling() == Handling::Forwarded
    }
}

/// A method that a server named, fit for records and logs: one of those servers may use, or a fixed word. What else
/// stands there is theirs to choose, and may be a secret.
#[must_use]
pub fn of_server(method: &str) -> &'static str {
    let asked = ServerMethod::parse(method).map(ServerMethod::as_str);
    let told = || ServerNotice::parse(method).map(ServerNotice::as_str);
    asked.or_else(told).unwrap_or("unknown")
}

/// A name that came from outside, fit for a record: at most 128 bytes, no control characters.
#[must_use]
pub fn recordable(name: &str) -> String {
    let mut kept = String::with_capacity(name.len().min(128));
    for c in name.chars().filter(|c| !c.is_control()) {
        if kept.len() + c.len_utf8() > 128 {
            break;
        }
        kept.push(c);
    }
    kept
}

/// Splits `server__tool` at the first `__`: server ids hold no underscore.
#[must_use]
pub fn split_federated(name: &str) -> Option<(&str, &str)> {
    name.split_once("__")
}

/// A server's tool under its name on the federated route.
#[must_use]
pub fn federated(server: &str, tool: &str) -> String {
    format!("{server}__{tool}")
}

#[cfg(test)]
mod tests {
    use super::*;

    // R172
    #[test]
    fn unknown_names_are_bounded_and_free_of_control_characters() {
        assert_eq!(recordable("a\u{1b}[31m\nb"), "a[31mb");
        assert_eq!(recordable(&"é".repeat(100)).len(), 128);
        assert_eq!(Method::parse("x\0y"), Method::Other("xy".to_owned()));
        assert_eq!(ClientNotice::parse("x\0y"), ClientNotice::Other("xy".to_owned()));
    }

    #[test]
    fn every_known_method_reads_back_and_what_is_told_is_never_asked() {
        for method in Method::KNOWN {
            assert_eq!(Method::parse(method.as_str()), *method);
            assert_eq!(
                ClientNotice::parse(method.as_str()),
                ClientNotice::Other(method.as_str().to_owned())
            );
            assert_ne!(method.handling(), Handling::Extension);
        }
        for notice in ClientNotice::KNOWN {
            assert_eq!(ClientNotice::parse(notice.as_str()), *notice);
            assert_eq!(Method::parse(notice.as_str()).handling(), Handling::Extension);
        }
    }

    #[test]
    fn what_servers_call_their_own_methods_is_not_repeated() {
        assert_eq!(of_server("sampling/createMessage"), "sampling/createMessage");
        assert_eq!(of_server("notifications/tasks/status"), "notifications/tasks/status");
        assert_eq!(of_server("evil/hunter2"), "unknown");
        assert_eq!(of_server("roots/list "), "unknown");
    }

    #[test]
    fn the_first_double_underscore_splits() {
        assert_eq!(split_federated("a__b__c"), Some(("a", "b__c")));
        assert_eq!(split_federated("ab"), None);
    }
}
