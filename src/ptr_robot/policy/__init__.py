"""What PTR asks of a policy, and the reference vision-language-action policy."""
