"""What a user can do to a flow: buttons, dialogs, and the addresses of their forms."""
