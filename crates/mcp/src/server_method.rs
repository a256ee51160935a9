//! The methods servers use. What is not listed here is nothing a server may ask or tell: it parses to `None`, and
//! whoever asked drops or refuses it by name.

use vocabulary::words;

use crate::mrtr::InputMethod;

words! {
    /// What a server may ask a client.
    pub enum ServerMethod {
        /// An answer of the client's model.
        CreateMessage = "sampling/createMessage",
        /// Something a person has to say.
        Elicit = "elicitation/create",
        /// Which folders the client works in.
        ListRoots = "roots/list",
        /// Whether the client is there.
        Ping = "ping",
        /// How a task that the client runs is going.
        TasksGet = "tasks/get",
        /// To stop such a task.
        TasksCancel = "tasks/cancel",
        /// What came of such a task.
        TasksResult = "tasks/result",
    }
}

words! {
    /// What a server may tell a client.
    pub enum ServerNotice {
        /// A request of its own is no longer wanted, or a stream of ours ends.
        Cancelled = "notifications/cancelled",
        /// How far a request has come.
        Progress = "notifications/progress",
        /// A line of its log.
        Message = "notifications/message",
        /// Its tools changed.
        ToolsChanged = "notifications/tools/list_changed",
        /// Its prompts changed.
        PromptsChanged = "notifications/prompts/list_changed",
        /// Its resources changed.
        ResourcesChanged = "notifications/resources/list_changed",
        /// A resource that was subscribed to changed.
        ResourceUpdated = "notifications/resources/updated",
        /// What is asked for by URL has happened.
        ElicitationComplete = "notifications/elicitation/complete",
        /// The state of a task of the modern era.
        Task = "notifications/tasks",
        /// The state of a task of a session.
        TaskStatus = "notifications/tasks/status",
        /// It hears what was subscribed to.
        SubscriptionAcknowledged = "notifications/subscriptions/acknowledged",
    }
}

impl ServerMethod {
    /// The question it puts to a client's model or user; `None` where the gateway answers or refuses it alone.
    #[must_use]
    pub const fn input(self) -> Option<InputMethod> {
        match self {
            Self::CreateMessage => Some(InputMethod::CreateMessage),
            Self::Elicit => Some(InputMethod::Elicit),
            Self::ListRoots => Some(InputMethod::ListRoots),
            Self::Ping | Self::TasksGet | Self::TasksCancel | Self::TasksResult => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn questions_are_those_three_that_a_client_can_be_asked() {
        let inputs: Vec<_> = ServerMethod::ALL.iter().filter_map(|method| method.input()).collect();
        let names: Vec<_> = inputs.iter().map(|input| input.as_str()).collect();
        assert_eq!(names, ["sampling/createMessage", "elicitation/create", "roots/list"]);
    }

    #[test]
    fn what_servers_may_not_send_is_none_and_nothing_is_both_asked_and_told() {
        assert_eq!(ServerMethod::parse("tools/call"), None);
        assert_eq!(ServerNotice::parse("notifications/initialized"), None);
        for notice in ServerNotice::ALL {
            assert_eq!(ServerMethod::parse(notice.as_str()), None);
        }
    }
}
