"""How fast it is: updates, actions, and what the device could do at best."""
