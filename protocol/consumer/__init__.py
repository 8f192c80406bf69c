"""The consumer protocol: Subscription, Assignment and user data, which members exchange through the coordinator."""
