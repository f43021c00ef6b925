"""The reference vision-language-action policy."""
