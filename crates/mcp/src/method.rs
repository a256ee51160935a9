//! The methods we speak, and a safe spelling of those we do not.

macro_rules! methods {
    ($($variant:ident = $name:literal),+ $(,)?) => {
        /// A method of a client, recognised or not.
        #[derive(Clone, PartialEq, Eq, Debug)]
        pub enum Method {
            $(
                #[doc = concat!("`", $name, "`")]
                $variant,
            )+
            /// Anything else, cut to 128 bytes, control characters removed.
            Other(String),
        }

        impl Method {
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
    Cancelled = "notifications/cancelled",
    Initialized = "notifications/initialized",
    Progress = "notifications/progress",
    RootsChanged = "notifications/roots/list_changed",
}

impl Method {
    /// Whether it asks for a list.
    #[must_use]
    pub fn is_list(&self) -> bool {
        matches!(
            self,
            Self::ToolsList | Self::PromptsList | Self::ResourcesList | Self::TemplatesList | Self::TasksList
        )
    }

    /// Whether it is carried to a server, after its params were checked.
    #[must_use]
    pub fn is_carried(&self) -> bool {
        matches!(
            self,
            Self::ToolsCall
                | Self::ResourcesRead
                | Self::Subscribe
                | Self::Unsubscribe
                | Self::PromptsGet
                | Self::Complete
                | Self::TasksGet
                | Self::TasksUpdate
                | Self::TasksCancel
                | Self::TasksResult
        )
    }
}

/// A method that a server named, fit for records and logs: one of those servers may use, or a fixed word. What else
/// stands there is theirs to choose, and may be a secret.
#[must_use]
pub fn of_server(method: &str) -> &'static str {
    const KNOWN: [&str; 17] = [
        "elicitation/create",
        "notifications/cancelled",
        "notifications/elicitation/complete",
        "notifications/message",
        "notifications/progress",
        "notifications/prompts/list_changed",
        "notifications/resources/list_changed",
        "notifications/resources/updated",
        "notifications/tasks",
        "notifications/tasks/status",
        "notifications/tools/list_changed",
        "ping",
        "roots/list",
        "sampling/createMessage",
        "tasks/cancel",
        "tasks/get",
        "tasks/result",
    ];
    let known = KNOWN.into_iter().find(|known| *known == method);
    known.unwrap_or("unknown")
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
    }

    #[test]
    fn what_servers_call_their_own_methods_is_not_repeated() {
        assert_eq!(of_server("sampling/createMessage"), "sampling/createMessage");
        assert_eq!(of_server("evil/hunter2"), "unknown");
        assert_eq!(of_server("roots/list "), "unknown");
    }

    #[test]
    fn the_first_double_underscore_splits() {
        assert_eq!(split_federated("a__b__c"), Some(("a", "b__c")));
        assert_eq!(split_federated("ab"), None);
    }
}
