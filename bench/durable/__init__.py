"""What durability promises and costs: one file for each question, all of the shape of `harness.answers.Question`."""
