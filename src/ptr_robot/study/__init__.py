"""Experiments that compare methods: rollouts of saved policies, the demo, its tables and figures."""
