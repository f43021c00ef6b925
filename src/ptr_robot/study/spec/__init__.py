"""What a study is: settings, methods, seeds, and the file they are read from."""
