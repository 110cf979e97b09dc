"""What gateways ask the control process and report to it."""
