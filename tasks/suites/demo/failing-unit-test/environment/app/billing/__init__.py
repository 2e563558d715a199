"""Billing: from ordered lines to what the customer pays."""
