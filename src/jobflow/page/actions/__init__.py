"""The actions of a user on a flow: buttons, dialogs, and the addresses of their forms."""
